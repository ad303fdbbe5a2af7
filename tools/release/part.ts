import type { Progress } from "#test/cluster/progress.ts";
import type { DebianPins } from "./image/base.ts";

/**
 * What a part is made from: nothing else, no clock and no environment, so that the same checkout gives the same bytes.
 */
export interface Release {
  /** The folder that the release is written to: an absolute path. */
  readonly out: string;
  /** As in package.json. */
  readonly version: string;
  /** The time of everything in the release, since 1970. */
  readonly epochSeconds: number;
  /** The checkout: an absolute path. */
  readonly source: string;
  /**
   * Where images and charts will be pushed to, such as `registry.example.com/switchback`; undefined where that is
   * not known yet.
   */
  readonly registry: string | undefined;
  /**
   * Where the files of the release can be downloaded from: an address without a slash at its end; undefined where
   * that is not known yet.
   */
  readonly downloads: string | undefined;
  /** The project's page, which has its sources too; undefined where nobody has said. */
  readonly home: string | undefined;
  /** The maintainer that the chart names: `Name` or `Name <address>`. */
  readonly maintainers: readonly string[];
  /** `FINGERPRINT ADDRESS` of the OpenPGP key that signs the chart's archive; undefined where nobody does. */
  readonly signKey: string | undefined;
  /** Where people report vulnerabilities; undefined where nothing is published. */
  readonly securityContact: string | undefined;
  /** What the image has of Debian. */
  readonly debian: DebianPins;
  readonly progress: Progress;
}

/** One kind of file of a release. */
export interface ReleasePart {
  /** As `--only` names it. */
  readonly name: string;
  /**
   * Writes its files and returns their paths, relative to `release.out`. Earlier parts' files are there, unless
   * `--only` left them out.
   */
  make(release: Release): Promise<readonly string[]>;
}
