import { type Zippable, zipSync } from "fflate";

/** A file of a zip archive. */
interface ZipFile {
  /** With slashes. */
  readonly path: string;
  readonly content: Buffer;
  /** Permissions, such as 0o644. */
  readonly mode: number;
}

const LEVEL = 9;
/** Made on Unix, so that the mode is read. */
const UNIX = 3;
const REGULAR_FILE = 0o100000;

/**
 * A zip archive, for Windows, which opens no tar by a click. Its bytes follow from the files and the time alone: the
 * archive has the hours of UTC.
 */
export function zip(files: readonly ZipFile[], epochSeconds: number): Buffer {
  const entries: Zippable = {};
  const mtime = localTime(epochSeconds);
  for (const { path, content, mode } of files) {
    entries[path] = [content, { level: LEVEL, os: UNIX, attrs: ((REGULAR_FILE | mode) << 16) >>> 0, mtime }];
  }
  return Buffer.from(zipSync(entries));
}

/** The time whose local hours are those of UTC: the library writes local ones. */
function localTime(epochSeconds: number): Date {
  const utc = new Date(epochSeconds * 1000);
  const [hours, minutes, seconds] = [utc.getUTCHours(), utc.getUTCMinutes(), utc.getUTCSeconds()];
  return new Date(utc.getUTCFullYear(), utc.getUTCMonth(), utc.getUTCDate(), hours, minutes, seconds);
}
