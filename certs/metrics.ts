import type { MetricsRegistry, Sample } from "#lib/telemetry/metrics.ts";
import type { CertStatus } from "./manager.ts";

/** Registers the certificate metrics. Each scrape calls `status`. It is undefined if this replica is not the leader. */
export function registerCertMetrics(registry: MetricsRegistry, status: () => CertStatus | undefined): void {
  registry.gauge(
    "switchback_certificate_expiry_timestamp_seconds",
    "Expiry of the CA and of the current serving certificate, Unix seconds.",
    () => {
      const { caNotAfter, leafNotAfter } = status() ?? {};
      return [...expiry("ca", caNotAfter), ...expiry("serving", leafNotAfter)];
    },
  );
  registry.gauge(
    "switchback_certificates_state",
    "1 for the current state of the rotation of certificates, by code.",
    () => {
      const code = status()?.state.code;
      return code === undefined ? [] : [[{ code }, 1]];
    },
  );
  registry.gauge(
    "switchback_certificates_failing",
    "1 if the last attempt to maintain the certificates or the caBundle failed.",
    () => (status()?.lastError === undefined ? 0 : 1),
  );
  registry.counterOf(
    "switchback_cabundle_restored_total",
    "How often another writer's change to the caBundle was reverted.",
    () => status()?.bundleRestored ?? 0,
  );
}

/** `notAfter` is in Unix milliseconds, or undefined if unknown. */
function expiry(certificate: string, notAfter: number | undefined): Sample[] {
  return notAfter === undefined ? [] : [[{ certificate }, notAfter / 1000]];
}
