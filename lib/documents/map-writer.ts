import { FIELD_MANAGER } from "#lib/kube/leader-client.ts";
import { ConfigMapWriter, type WriterDeps } from "./config-map.ts";
import { MAP_NAME, type MapNotes, mapAnnotations, type RenderedMap } from "./map-format.ts";

/** Where the leading controller publishes the map, and where it finds the earlier publication. */
export type MapWriter = Pick<KubeMapWriter, "start" | "synced" | "current" | "refresh" | "write" | "stop"> &
  Partial<Pick<KubeMapWriter, "inactiveMs">>;

/** The map in the API server. */
export class KubeMapWriter extends ConfigMapWriter {
  readonly #now: () => number;

  /** `now` returns milliseconds since 1970. */
  constructor({ now = Date.now, ...deps }: WriterDeps & { readonly now?: () => number }) {
    super(MAP_NAME, deps);
    this.#now = now;
  }

  /**
   * Replaces the whole map. Throws the API server's errors: with status 409 if the map is not `current` any more.
   * A missing map is created, never overwritten. Before `start`, nothing is written.
   */
  async write({ revision, data, binaryData }: RenderedMap, notes: MapNotes): Promise<void> {
    const isMissing = this.current === undefined;
    const time = new Date(this.#now()).toISOString();
    const metadata = { ...this.base, annotations: mapAnnotations(revision, notes, time, this.base.annotations) };
    const values = { ...(data && { data }), ...(binaryData && { binaryData }) };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, ...values };
    const options = { fieldManager: FIELD_MANAGER };
    // An apply creates the object, so that RBAC can limit the right to this name.
    await this.send((client, path) =>
      isMissing ? client.apply(path, object, options) : client.replace(path, object, options),
    );
  }
}
