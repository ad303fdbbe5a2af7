import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { ReleaseError } from "./error.ts";
import { type DebianPins, readDebianPins } from "./image/base.ts";
import type { ReleasePart } from "./part.ts";

/** The options of a release. */
interface ReleaseArguments {
  readonly out: string;
  readonly parts: readonly ReleasePart[];
  readonly registry: string | undefined;
  readonly downloads: string | undefined;
  readonly home: string | undefined;
  readonly maintainers: readonly string[];
  readonly signKey: string | undefined;
  readonly securityContact: string | undefined;
  /** Debian's packages, from tools/release/image/base.json or another file of this form. */
  readonly debian: DebianPins;
  /** Whether to accept uncommitted changes in the checkout, for trial releases. */
  readonly dirty: boolean;
}

const USAGE = `usage: npm run release -- --out FOLDER [--only PART[,PART]] [--registry HOST/PATH] [--downloads URL]
                          [--security-contact CONTACT] [--home URL] [--maintainer "NAME <ADDRESS>"]...
                          [--sign-key "FINGERPRINT URL"] [--base FILE] [--dirty]
       npm run release -- --refresh-base`;
/** Matches a registry in the form of OCI references: a host, an optional port, and a path. */
const REGISTRY = /^[a-z0-9.-]+(?::\d+)?(?:\/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*$/;

const MAINTAINER = /^[^<>"\\\n]*[^<>"\\\s](?: <[^<>"\\\s]+>)?$/;
const SIGN_KEY = /^[0-9A-F]{40} https:\/\/\S+$/;
const ADDRESS = /^https:\/\/[^\s?#]+[^\s?#/]$/;

/** Reads the command line. Throws a ReleaseError that names what is wrong and what is accepted. */
export function readArguments(args: readonly string[], known: readonly ReleasePart[]): ReleaseArguments {
  const {
    out,
    only,
    registry,
    downloads,
    home,
    maintainer: maintainers = [],
    base,
    dirty = false,
    ...more
  } = parsed(args);
  const securityContact = more["security-contact"];
  const signKey = more["sign-key"];
  if (!out) throw new ReleaseError(`--out is missing\n${USAGE}`);
  if (registry !== undefined && !REGISTRY.test(registry))
    throw new ReleaseError(
      `--registry ${JSON.stringify(registry)} is not a host with a path, such as registry.example.com/switchback`,
    );
  if (downloads !== undefined && !ADDRESS.test(downloads))
    throw new ReleaseError(
      `--downloads ${JSON.stringify(downloads)} is not an https address without a slash at its end`,
    );
  if (home !== undefined && !ADDRESS.test(home))
    throw new ReleaseError(`--home ${JSON.stringify(home)} is not an https address without a slash at its end`);
  const odd = maintainers.find((one) => !MAINTAINER.test(one));
  if (odd !== undefined) throw new ReleaseError(`--maintainer ${JSON.stringify(odd)} is not NAME or "NAME <ADDRESS>"`);
  if (signKey !== undefined && !SIGN_KEY.test(signKey))
    throw new ReleaseError(
      `--sign-key ${JSON.stringify(signKey)} is not 40 upper-case hex digits and an https address`,
    );
  if (registry !== undefined && !securityContact?.trim())
    throw new ReleaseError(
      "--security-contact is missing or empty: a published release needs a mail address or a page for reports of " +
        "vulnerabilities",
    );
  const parts = only === undefined ? known : chosen(only, known);
  return {
    out: resolve(out),
    parts,
    registry,
    downloads,
    home,
    maintainers,
    signKey,
    securityContact,
    debian: readDebianPins(base),
    dirty,
  };
}

function parsed(args: readonly string[]) {
  const options = {
    out: { type: "string" },
    only: { type: "string" },
    registry: { type: "string" },
    downloads: { type: "string" },
    home: { type: "string" },
    maintainer: { type: "string", multiple: true },
    "sign-key": { type: "string" },
    "security-contact": { type: "string" },
    base: { type: "string" },
    dirty: { type: "boolean" },
  } as const;
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (cause) {
    throw new ReleaseError(`${(cause as Error).message.split(". ")[0]}\n${USAGE}`, { cause });
  }
}

/** The chosen parts, in the order in which they are made, whatever the order on the command line. */
function chosen(only: string, known: readonly ReleasePart[]): readonly ReleasePart[] {
  const names = only.split(",");
  const unknown = names.find((name) => !known.some((part) => part.name === name));
  if (unknown !== undefined) {
    const all = known.map(({ name }) => name).join(", ");
    throw new ReleaseError(`--only: ${JSON.stringify(unknown)} is no part of a release; there are ${all}`);
  }
  return known.filter((part) => names.includes(part.name));
}
