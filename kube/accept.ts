/**
 * Forms of an answer that leave out spec and status (Kubernetes API concepts, "Metadata-only fetches"): a tenth of the bytes of a
 * pod, and nothing in memory that need not be known. The API server converts; list and watch have a form each.
 */
export const METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
export const METADATA_WATCH = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
