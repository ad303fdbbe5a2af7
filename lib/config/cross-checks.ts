import { renderPath } from "#lib/errors/validation.ts";
import { RESERVED_TARGET_NAMES } from "./defaults.ts";
import { optInRules } from "./opt-in.ts";
import type { Config } from "./schema.ts";

type Path = readonly (string | number)[];
type ReportError = (path: Path, message: string) => void;
type Targets = Config["targets"];

/** Returns the errors that only a comparison of settings finds. Each setting alone is valid. */
export function crossErrors(config: Config): { readonly path: Path; readonly message: string }[] {
  const errors: { path: Path; message: string }[] = [];
  const report: ReportError = (path, message) => errors.push({ path, message });
  checkTargets(config.targets, (path, message) => report(["targets", ...path], message));
  const { excluded } = optInRules(config);
  const others = [...excluded].join(", ");
  for (const [index, name] of config.optIn.namespaces.entries()) {
    if (!excluded.has(name)) continue;
    const message = `pods of ${name} are never sent to the webhook; expected a namespace other than ${others}`;
    report(["optIn", "namespaces", index], message);
  }
  const { mode, certFile, keyFile } = config.certs;
  if (mode === "files" && (certFile === undefined || keyFile === undefined))
    report(["certs"], "mode files requires certFile and keyFile");
  return errors;
}

/** Checks across targets: names and classes are unique, and every target can have an address. */
function checkTargets(targets: Targets, reportError: ReportError): void {
  for (const [index, target] of targets.entries()) {
    if (RESERVED_TARGET_NAMES.includes(target.name)) {
      const message = `must not be ${RESERVED_TARGET_NAMES.join(", ")}: these Services are Switchback's own`;
      reportError([index, "name"], message);
    }
    const direct = target.ports.length > 0 && target.ports.every(({ protocol }) => protocol === "none");
    if (direct && !("service" in target.upstream) && target.clusterIPs.length === 0) {
      reportError(
        [index, "clusterIPs"],
        "with protocol none on all ports, set the upstream to a Service, or set the addresses to map to",
      );
    }
    if (targets.length > 1 && target.classes.length === 0)
      reportError([index, "classes"], "with several targets, each must list its ingress classes");
    const ports = target.ports.map(({ port }, at) => ({ value: port, path: [index, "ports", at, "port"] }));
    reportRepeated(ports, reportError);
  }
  const names = targets.map(({ name }, index) => ({ value: name, path: [index, "name"] }));
  const classes = targets.flatMap((target, index) =>
    target.classes.map((value, at) => ({ value, path: [index, "classes", at] })),
  );
  // Each proxy binds the ports of all targets.
  const listenPorts = targets.flatMap(({ ports }, index) =>
    ports.flatMap(({ listenPort: value }, at) =>
      value === undefined ? [] : { value, path: [index, "ports", at, "listenPort"] },
    ),
  );
  for (const places of [names, classes, listenPorts]) reportRepeated(places, reportError);
}

interface Place {
  readonly value: string | number;
  readonly path: Path;
}

/** Reports each value that an earlier place has, too. */
function reportRepeated(places: readonly Place[], reportError: ReportError): void {
  const first = new Map<unknown, Path>();
  for (const { value, path } of places) {
    const earlier = first.get(value);
    if (earlier === undefined) first.set(value, path);
    else reportError(path, `${renderPath(["targets", ...earlier])} is the same`);
  }
}
