import * as v from "valibot";
import { integer, number, numberFrom, record, strictObject } from "#lib/errors/schemas.ts";
import { bindPort, optionalSetting, positive, seconds, secondsFrom, setting } from "./values.ts";

// The settings of each component.

/** Maximum of TCP_KEEPIDLE on Linux. With a larger value, a socket silently keeps its default of two hours. */
const MAX_KEEPALIVE_SECONDS = 32_767;

export const webhookSchema = strictObject({
  address: setting(v.string(), "::", "Address that both ports bind."),
  port: setting(bindPort, 8443, "HTTPS, for the API server."),
  healthPort: setting(bindPort, 8081, "Health and metrics."),
  maxBodyBytes: setting(
    integer(1024),
    3 * 1024 * 1024,
    "Maximum size of an AdmissionReview; larger ones are refused with 413. An API server stores pods of up to 1.5 MiB.",
  ),
});

export const controllerSchema = strictObject({
  address: setting(v.string(), "::", "Address that the port binds."),
  port: setting(bindPort, 8080, "Health, metrics and /status."),
  leaseSeconds: setting(
    number(2, 86_400),
    15,
    "Another replica may take over the Lease after this long without a renewal.",
  ),
  renewDeadlineSeconds: setting(numberFrom(1), 10, "A leader that cannot renew the Lease for this long gives up."),
  retrySeconds: setting(numberFrom(0.1), 2, "Time between two attempts to acquire or renew the Lease."),
});

export const proxySchema = strictObject({
  engine: setting(
    v.picklist(["auto", "linux", "portable"]),
    "auto",
    "Engine of the relay: `linux` uses epoll and splice, `portable` uses node:net, `auto` uses linux where it works.",
  ),
  workers: setting(
    integer(0, 64),
    0,
    "Threads of the linux engine; 0: half of the cores that the process may use, at least 1 and at most 4.",
  ),
  v2Checksum: setting(v.boolean(), false, "Add a CRC-32C checksum to PROXY headers of version 2."),
  v2UniqueId: setting(v.boolean(), false, "Add a unique connection ID (a UUID) to PROXY headers of version 2."),
  selector: setting(
    record(v.string(), v.string()),
    { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "proxy" },
    "Labels of the proxy pods; the front Services select them.",
  ),
  trafficDistribution: optionalSetting(
    v.picklist(["PreferSameNode", "PreferSameZone", "PreferClose"]),
    "`spec.trafficDistribution` of the front Services: `PreferSameNode` (Kubernetes 1.35, default from 1.34) sends a " +
      "client to a proxy on its own node, `PreferSameZone` and `PreferClose` in its zone. Default: any proxy. If " +
      "the API server does not know the value, the field is omitted.",
  ),
  address: setting(v.string(), "::", "Address that the relay's listeners bind."),
  healthPort: setting(bindPort, 8082, "Health and metrics."),
  maxConnections: setting(integer(1), 10_000, "Maximum number of concurrent connections; more are refused."),
  maxConnectionsPerSource: setting(integer(1), 1_000, "Maximum number of concurrent connections per source address."),
  connectTimeoutSeconds: setting(
    seconds,
    5,
    "Timeout for connecting to the upstream; 1.5 s at most while it has another address.",
  ),
  idleTimeoutSeconds: setting(seconds, 3600, "A connection is closed after this long without traffic."),
  halfClosedTimeoutSeconds: setting(
    seconds,
    60,
    "Idle timeout after the upstream has closed its side, for clients that ignore that; 0: idleTimeoutSeconds.",
  ),
  drainSeconds: setting(seconds, 30, "Time that connections have to finish after SIGTERM; then they are reset."),
  keepaliveSeconds: setting(
    secondsFrom(0, MAX_KEEPALIVE_SECONDS),
    60,
    "Idle time before TCP keepalive probes; 0 disables them.",
  ),
  resolveSeconds: setting(seconds, 30, "Longest time between two DNS lookups of the upstream."),
});

export const certsSchema = strictObject({
  mode: setting(
    v.picklist(["self-signed", "cert-manager", "files"]),
    "self-signed",
    "Who issues the webhook's certificate: the controller, cert-manager, or the user.",
  ),
  certFile: optionalSetting(v.string(), "With `files`: path of the serving certificate, PEM, leaf first."),
  keyFile: optionalSetting(v.string(), "With `files`: path of its private key, PEM."),
  caDays: setting(positive, 3650, "Validity of the CA."),
  leafDays: setting(positive, 90, "Validity of the serving certificate."),
  overlapSeconds: setting(seconds, 600, "Shortest time between two steps of a rotation."),
});
