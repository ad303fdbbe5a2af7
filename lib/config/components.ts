import * as v from "valibot";
import { integer, number, record, strictObject } from "#lib/errors/schemas.ts";
import { MAX_LEASE_SECONDS } from "./defaults.ts";
import { bindPort, optionalSetting, positive, seconds, setting } from "./values.ts";

// The settings of each component.

export const webhookSchema = strictObject({
  port: setting(bindPort, 8443, "HTTPS, for the API server. Change it with hostNetwork, if the node uses the port."),
  healthPort: setting(bindPort, 8081, "Health and metrics. Change it with hostNetwork, if the node uses the port."),
});

export const controllerSchema = strictObject({
  port: setting(
    bindPort,
    8080,
    "Health, metrics and /status. Change it if a policy of your cluster reserves the port.",
  ),
  leaseSeconds: setting(
    number(2, MAX_LEASE_SECONDS),
    15,
    "Another replica may take over the Lease after this long without a renewal. " +
      "A leader stops after two thirds of it. Raise it if the API server is often slower than 10 s.",
  ),
});

export const proxySchema = strictObject({
  engine: setting(
    v.picklist(["auto", "linux", "portable"]),
    "auto",
    "Engine of the relay: `linux` uses epoll and splice, `portable` uses node:net, `auto` uses linux where it works. " +
      "Set `portable` if you suspect the other one.",
  ),
  workers: setting(
    integer(0, 64),
    0,
    "Threads of the linux engine; 0: half of the cores that the process may use, at least 1 and at most 4. " +
      "Set it if more cores should relay in one pod.",
  ),
  v2Checksum: setting(
    v.boolean(),
    false,
    "Add a CRC-32C checksum to PROXY headers of version 2. Enable it if your ingress controller checks it.",
  ),
  v2UniqueId: setting(
    v.boolean(),
    false,
    "Add a unique connection ID (a UUID) to PROXY headers of version 2. Enable it if your ingress controller logs it.",
  ),
  selector: setting(
    record(v.string(), v.string()),
    { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "proxy" },
    "Labels of the proxy pods; the front Services select them. Change it only if you deploy the proxies yourself.",
  ),
  trafficDistribution: optionalSetting(
    v.picklist(["PreferSameNode", "PreferSameZone", "PreferClose"]),
    "`spec.trafficDistribution` of the front Services: `PreferSameNode` (Kubernetes 1.35, default from 1.34) sends a " +
      "client to a proxy on its own node, `PreferSameZone` and `PreferClose` in its zone. Default: any proxy. If " +
      "the API server does not know the value, the field is omitted. Set it to save traffic between zones.",
  ),
  address: setting(
    v.string(),
    "::",
    "Address that the proxy's ports bind. Change it if they must not be open on all addresses of a machine.",
  ),
  healthPort: setting(bindPort, 8082, "Health and metrics. Change it if a target's `listenPort` is the same."),
  maxConnections: setting(
    integer(1),
    10_000,
    "Maximum number of concurrent connections; more are refused. Change it with the memory limit.",
  ),
  maxConnectionsPerSource: setting(
    integer(1),
    1_000,
    "Maximum number of concurrent connections per source address. Raise it for clients that share one, such as a NAT.",
  ),
  idleTimeoutSeconds: setting(
    seconds,
    3600,
    "A connection is closed after this long without traffic. Raise it for protocols that are silent for longer.",
  ),
  drainSeconds: setting(
    seconds,
    30,
    "Time that connections have to finish after SIGTERM; then they are reset. Raise it if downloads take longer.",
  ),
});

export const certsSchema = strictObject({
  mode: setting(
    v.picklist(["self-signed", "cert-manager", "files"]),
    "self-signed",
    "Who issues the webhook's certificate: the controller, cert-manager, or the user. Change it if your " +
      "organisation requires its own CA.",
  ),
  certFile: optionalSetting(v.string(), "With `files`: path of the serving certificate, PEM, leaf first."),
  keyFile: optionalSetting(v.string(), "With `files`: path of its private key, PEM."),
  caDays: setting(positive, 3650, "Validity of the CA. Lower it if your security policy requires that."),
  leafDays: setting(
    positive,
    90,
    "Validity of the serving certificate. Lower it if your security policy requires that.",
  ),
  overlapSeconds: setting(
    seconds,
    600,
    "Shortest time between two steps of a rotation. Raise it if API servers or webhooks read changes later.",
  ),
});
