import { type FSWatcher, watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { describeError } from "#lib/errors/errors.ts";
import type { ServingSource } from "./serving.ts";

/** A change without an event (network file systems, a recreated directory) is noticed after this time at most. */
const POLL_MS = 60_000;
/** The two files change one after the other; a read between them would return a pair that does not match. */
const SETTLE_MS = 100;

/**
 * Reads the pair from two files. It watches their directories, not the files: the kubelet mounts a Secret as links through
 * `..data` and swaps that link, after which a watch on a file would still follow the old one.
 */
export function fileSource(files: {
  readonly certFile: string;
  readonly keyFile: string;
  readonly pollMs?: number;
}): ServingSource {
  const directories = [...new Set([dirname(files.certFile), dirname(files.keyFile)])];
  return {
    start(found) {
      let stopped = false;
      let reading = Promise.resolve();
      let settling: NodeJS.Timeout | undefined;
      const look = async () => {
        try {
          const [cert, key] = await Promise.all([readFile(files.certFile, "utf8"), readFile(files.keyFile, "utf8")]);
          if (!stopped) found({ cert, key });
        } catch (error) {
          if (!stopped) found({ code: "files-unreadable", text: describeError(error) });
        }
      };
      const lookNow = () => {
        reading = reading.then(look);
      };
      const changed = () => {
        clearTimeout(settling);
        settling = setTimeout(lookNow, SETTLE_MS);
      };
      const watchers = directories.map((directory) => followDirectory(directory, changed));
      const poll = setInterval(() => {
        for (const watcher of watchers) watcher.ensure();
        lookNow();
      }, files.pollMs ?? POLL_MS);
      lookNow();
      return {
        async stop() {
          stopped = true;
          clearInterval(poll);
          clearTimeout(settling);
          for (const watcher of watchers) watcher.close();
          await reading;
        },
      };
    },
  };
}

/** A watch on a directory that may not exist: `ensure` reopens it if it has ended. */
function followDirectory(directory: string, changed: () => void) {
  let watcher: FSWatcher | undefined;
  const close = () => {
    watcher?.close();
    watcher = undefined;
  };
  const ensure = () => {
    if (watcher !== undefined) return;
    try {
      watcher = watch(directory, changed);
      watcher.on("error", close);
    } catch {
      // The poll reads the files and reports what is wrong with them.
    }
  };
  ensure();
  return { ensure, close };
}
