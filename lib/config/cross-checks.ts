import { RESERVED_TARGET_NAMES } from "./defaults.ts";
import { optInRules } from "./opt-in.ts";
import type { Config } from "./schema.ts";

/** Maximum number of ports of all configured targets. Each port is a socket in every thread of every proxy. */
const MAX_CONFIGURED_PORTS = 1_000;

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
  const { leaseSeconds, renewDeadlineSeconds, retrySeconds } = config.controller;
  // The wait between two attempts has a jitter of up to 20 %, as in client-go.
  if (!(retrySeconds * 1.2 < renewDeadlineSeconds && renewDeadlineSeconds < leaseSeconds))
    report(["controller"], "expected 1.2 x retrySeconds < renewDeadlineSeconds < leaseSeconds");
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
    if (targets.findIndex(({ name }) => name === target.name) < index)
      reportError([index, "name"], "two targets have this name");
    const direct = target.ports.length > 0 && target.ports.every(({ protocol }) => protocol === "none");
    if (direct && !("service" in target.upstream) && target.clusterIPs.length === 0) {
      reportError(
        [index, "clusterIPs"],
        "with protocol none on all ports, set the upstream to a Service, or set the addresses to map to",
      );
    }
    const ports = target.ports.map(({ port: number }) => number);
    if (new Set(ports).size < ports.length) reportError([index, "ports"], "a port is listed twice");
  }
  const ports = targets.reduce((sum, target) => sum + target.ports.length, 0);
  if (ports > MAX_CONFIGURED_PORTS)
    reportError([], `${ports} ports in all; at most ${MAX_CONFIGURED_PORTS} are possible`);
  checkClasses(targets, reportError);
  checkListenPorts(targets, reportError);
}

/** Listen ports must be unique: each proxy binds the ports of all targets. */
function checkListenPorts(targets: Targets, reportError: ReportError): void {
  const used = new Map<number, string>();
  for (const [index, target] of targets.entries()) {
    for (const [position, { listenPort }] of target.ports.entries()) {
      if (listenPort === undefined) continue;
      const path = `targets[${index}].ports[${position}]`;
      const other = used.get(listenPort);
      if (other !== undefined) reportError([index, "ports", position, "listenPort"], `${other} already has this port`);
      else used.set(listenPort, path);
    }
  }
}

function checkClasses(targets: Targets, reportError: ReportError): void {
  const used = new Map<string, string>();
  for (const [index, target] of targets.entries()) {
    if (targets.length > 1 && target.classes.length === 0) {
      reportError([index, "classes"], "with several targets, each must list its ingress classes");
    }
    for (const className of target.classes) {
      const other = used.get(className);
      if (other !== undefined)
        reportError([index, "classes"], `the class ${className} already belongs to the target ${other}`);
      used.set(className, target.name);
    }
  }
}
