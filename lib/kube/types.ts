/** Object metadata as in the API server's JSON (dates are RFC 3339 strings). */
export interface ObjectMeta {
  name?: string;
  namespace?: string;
  generateName?: string;
  uid?: string;
  /** Opaque. Compare only for equality: equal means unchanged. */
  resourceVersion?: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  /** Counts the changes of the spec. */
  generation?: number;
}

interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  /** Whether this is the one owner that manages the object. */
  controller?: boolean;
}

/** Any API object. Items of a list have no apiVersion and kind. */
export interface ApiObject {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
}

/** One page of a list. */
export interface ApiList<T> {
  metadata?: { resourceVersion?: string; continue?: string };
  items?: T[] | null;
}

/** The Status that the API server returns if a call fails. */
export interface ApiStatus {
  kind?: string;
  code?: number;
  reason?: string;
  message?: string;
  details?: { retryAfterSeconds?: number };
}

/** One line of a watch. */
export interface WatchEvent {
  type: string;
  object: ApiObject & ApiStatus;
}

/** One operation of a JSON Patch (RFC 6902). */
export interface JsonPatchOperation {
  op: "add" | "remove" | "replace" | "move" | "copy" | "test";
  path: string;
  from?: string;
  value?: unknown;
}

export interface CallOptions {
  /** The call fails with `kube-unreachable` after this long. Default 10 s. */
  timeoutMs?: number;
  /** Aborts the call; it then rejects with the signal's reason. */
  signal?: AbortSignal;
}

export interface ReadOptions extends CallOptions {
  /** Default: `call`. */
  channel?: "call" | "watch";
  /** Media type for the Accept header; see `accept.ts`. Default: JSON. */
  accept?: string;
  /** A longer response is an error (`TooLongError`). Default: 16 MiB, more than any object has. */
  maxBytes?: number;
}
