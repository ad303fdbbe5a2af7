/**
 * Media types for metadata only, without spec and status (Kubernetes API concepts, "Metadata-only fetches"). They
 * reduce a pod to a tenth of its bytes and keep unneeded data out of memory. The API server converts the objects.
 * List and watch have different types.
 */
export const METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
export const METADATA_WATCH = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
