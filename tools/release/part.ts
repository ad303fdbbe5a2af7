import type { Progress } from "#test/cluster/progress.ts";
import type { DebianPins } from "./image/base.ts";

/**
 * The only input of a part. A part uses no clock and no environment, so that the same checkout gives the same bytes.
 */
export interface Release {
  /** Absolute path of the release's folder. */
  readonly out: string;
  /** Version as in package.json. */
  readonly version: string;
  /** Time of everything in the release, in seconds since 1970. */
  readonly epochSeconds: number;
  /** Absolute path of the checkout. */
  readonly source: string;
  /**
   * Registry to which images and charts will be pushed, such as `registry.example.com/switchback`; undefined if it is
   * not known yet.
   */
  readonly registry: string | undefined;
  /**
   * Address from which the release's files can be downloaded, without a slash at the end; undefined if it is not
   * known yet.
   */
  readonly downloads: string | undefined;
  /** The project's page, which also has its sources; undefined if it is not given. */
  readonly home: string | undefined;
  /** The maintainers in the chart: `Name` or `Name <address>`. */
  readonly maintainers: readonly string[];
  /** `FINGERPRINT ADDRESS` of the OpenPGP key that signs the chart's archive; undefined if it is not signed. */
  readonly signKey: string | undefined;
  /** Contact for reports of vulnerabilities; undefined if nothing is published. */
  readonly securityContact: string | undefined;
  /** The Debian packages in the image. */
  readonly debian: DebianPins;
  readonly progress: Progress;
}

/** One kind of file of a release. */
export interface ReleasePart {
  /** Name for `--only`. */
  readonly name: string;
  /**
   * Writes its files and returns their paths, relative to `release.out`. The files of earlier parts exist, unless
   * `--only` left them out.
   */
  make(release: Release): Promise<readonly string[]>;
}
