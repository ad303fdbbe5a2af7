import { type FSWatcher, watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { describeError } from "#lib/errors/errors.ts";
import type { ServingSource } from "./serving.ts";

/** Limits the delay of a change without an event (network file systems, a recreated directory). */
const POLL_MS = 60_000;
/** The two files change one after the other. A read between them would return a pair that does not match. */
const SETTLE_MS = 100;

/**
 * Reads the pair from two files. The kubelet mounts a Secret as links through `..data` and swaps that link. A watch on
 * a file would then still follow the old file, so this source watches the directories.
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
      const read = async () => {
        try {
          const [cert, key] = await Promise.all([readFile(files.certFile, "utf8"), readFile(files.keyFile, "utf8")]);
          if (!stopped) found({ cert, key });
        } catch (error) {
          if (!stopped) found({ code: "files-unreadable", text: describeError(error) });
        }
      };
      const readNext = () => {
        reading = reading.then(read);
      };
      const changed = () => {
        clearTimeout(settling);
        settling = setTimeout(readNext, SETTLE_MS);
      };
      const watchers = directories.map((directory) => followDirectory(directory, changed));
      const poll = setInterval(() => {
        for (const watcher of watchers) watcher.ensure();
        readNext();
      }, files.pollMs ?? POLL_MS);
      readNext();
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
      // The poll reads the files and reports the problem.
    }
  };
  ensure();
  return { ensure, close };
}
