import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { CertStatus } from "./manager.ts";

/** Registers the certificate metrics. Each scrape calls `status`. It is undefined if this replica is not the leader. */
export function registerCertMetrics(registry: MetricsRegistry, status: () => CertStatus | undefined): void {
  registry.gauge(
    "switchback_certificate_expiry_timestamp_seconds",
    "Expiry of the CA and of the current serving certificate, Unix seconds.",
    () => {
      const { caNotAfter: ca, leafNotAfter: serving } = status() ?? {};
      const known = Object.entries({ ca, serving }).filter(([, notAfter]) => notAfter !== undefined);
      return known.map(([certificate, notAfter = 0]) => [{ certificate }, notAfter / 1000]);
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
    "switchback_cabundle_writes_total",
    "How often this leader wrote the caBundle.",
    () => status()?.bundleWrites ?? 0,
  );
}
