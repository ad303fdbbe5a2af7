import { type Zippable, zipSync } from "fflate";

/** A file of a zip archive. */
interface ZipFile {
  /** Path with forward slashes. */
  readonly path: string;
  readonly content: Buffer;
  /** Permissions, such as 0o644. */
  readonly mode: number;
}

const LEVEL = 9;
/** Marks the archive as made on Unix, so that programs read the mode. */
const UNIX = 3;
const REGULAR_FILE = 0o100000;

/**
 * Makes a zip archive for Windows, which does not open a tar archive on a click. Its bytes depend only on the files
 * and the time: the archive has UTC times.
 */
export function zip(files: readonly ZipFile[], epochSeconds: number): Buffer {
  const entries: Zippable = {};
  const mtime = localTime(epochSeconds);
  for (const { path, content, mode } of files) {
    entries[path] = [content, { level: LEVEL, os: UNIX, attrs: ((REGULAR_FILE | mode) << 16) >>> 0, mtime }];
  }
  return Buffer.from(zipSync(entries));
}

/** A time whose local clock shows the UTC time, because the library writes local times. */
function localTime(epochSeconds: number): Date {
  const utc = new Date(epochSeconds * 1000);
  const [hours, minutes, seconds] = [utc.getUTCHours(), utc.getUTCMinutes(), utc.getUTCSeconds()];
  return new Date(utc.getUTCFullYear(), utc.getUTCMonth(), utc.getUTCDate(), hours, minutes, seconds);
}
