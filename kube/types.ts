/** The metadata every object carries, as the API server's JSON has it (dates are RFC 3339 strings). */
export interface ObjectMeta {
  name?: string;
  namespace?: string;
  generateName?: string;
  uid?: string;
  /** Opaque: equal means unchanged, nothing else may be read from it. */
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
  /** The one owner that manages the object. */
  controller?: boolean;
}

/** The least that is known of any object. Items of a list have no apiVersion and kind of their own. */
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

/** What the API server sends instead of an object when a call fails. */
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
