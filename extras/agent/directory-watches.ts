import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";

/** Watches pods' directories for changes of hosts files. It may miss some; a periodic sweep finds those. */
export interface DirectoryWatches {
  /** Watches a pod's directory if it exists and is not watched yet. */
  add(uid: string): void;
  remove(uid: string): void;
  close(): void;
}

/** `onTouched` is called with a pod's uid when its hosts file may have changed or its directory was created. */
export function watchDirectories(
  podsDirectory: string,
  onTouched: (uid: string) => void,
  log: Logger,
): DirectoryWatches {
  const watches = new Map<string, FSWatcher>();
  let isFull = false;

  const start = (path: string, listener: (name: string) => void): FSWatcher | undefined => {
    try {
      const started = watch(path, { persistent: false }, (_event, name) => listener(name ?? ""));
      // Deleting a directory ends its watch.
      started.on("error", () => started.close());
      isFull = false;
      return started;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ENOENT" && !isFull)
        log.warn(
          { path, error: describeError(error) },
          "directory is not watched: only the periodic sweep finds its changes",
        );
      isFull = code !== "ENOENT";
      return undefined;
    }
  };

  const parent = start(podsDirectory, onTouched);
  return {
    add(uid) {
      if (watches.has(uid)) return;
      const started = start(join(podsDirectory, uid), (name) => {
        if (name === "etc-hosts") onTouched(uid);
      });
      if (started !== undefined) watches.set(uid, started);
    },
    remove(uid) {
      watches.get(uid)?.close();
      watches.delete(uid);
    },
    close() {
      parent?.close();
      for (const started of watches.values()) started.close();
    },
  };
}
