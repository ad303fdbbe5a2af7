import { Counter, Gauge, type Registry } from "prom-client";
import type { CertStatus } from "./manager.ts";

/** Registers the certificates' metrics; `status` is asked at each scrape, and gives undefined in a replica that does not lead. */
export function registerCertMetrics(registry: Registry, status: () => CertStatus | undefined): void {
  const registers = [registry];
  new Gauge({
    name: "switchback_certificate_not_after_seconds",
    help: "End of the CA and of the serving certificate on offer, Unix seconds.",
    labelNames: ["certificate"],
    registers,
    collect() {
      this.reset();
      const { caNotAfter, leafNotAfter } = status() ?? {};
      if (caNotAfter !== undefined) this.set({ certificate: "ca" }, caNotAfter / 1000);
      if (leafNotAfter !== undefined) this.set({ certificate: "serving" }, leafNotAfter / 1000);
    },
  });
  new Gauge({
    name: "switchback_certificates_state",
    help: "1 for the state that the certificates are in.",
    labelNames: ["code"],
    registers,
    collect() {
      this.reset();
      const code = status()?.state.code;
      if (code !== undefined) this.set({ code }, 1);
    },
  });
  new Gauge({
    name: "switchback_certificates_failing",
    help: "1 while the last attempt to keep the certificates or the caBundle failed.",
    registers,
    collect() {
      this.set(status()?.lastError === undefined ? 0 : 1);
    },
  });
  new Counter({
    name: "switchback_cabundle_restored_total",
    help: "How often someone else's change to the caBundle was undone.",
    registers,
    collect() {
      this.reset();
      this.inc(status()?.bundleRestored ?? 0);
    },
  });
}
