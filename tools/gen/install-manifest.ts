import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { binary } from "#test/cluster/binaries.ts";
import type { Generator } from "./generator.ts";

const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const NAMESPACE = "switchback-system";

const HEAD = `# Switchback with the chart's default values, for \`kubectl apply --server-side -f\`.
# Made from manifests/chart by \`npm run gen\`: change the chart, not this file.
---
apiVersion: v1
kind: Namespace
metadata:
  name: ${NAMESPACE}
  labels:
    app.kubernetes.io/name: switchback
    app.kubernetes.io/part-of: switchback
    pod-security.kubernetes.io/enforce: restricted
    pod-security.kubernetes.io/audit: restricted
    pod-security.kubernetes.io/warn: restricted
`;

/** Labels that apply only to a Helm release. */
const HELM_LABEL = /^ +(helm\.sh\/chart|app\.kubernetes\.io\/managed-by|app\.kubernetes\.io\/instance): .*\n/gm;

/** manifests/install.yaml: the output of `helm template`, and the Namespace that Helm would create. */
export const installManifest: Generator = {
  name: "install-manifest",
  file: "manifests/install.yaml",
  render: async () => {
    const helm = await binary("helm");
    const args = ["template", "switchback", CHART, "--namespace", NAMESPACE, "--no-hooks"];
    const { stdout } = await promisify(execFile)(helm, args, { maxBuffer: 16 * 1024 * 1024 });
    return HEAD + stdout.replace(HELM_LABEL, "").replace(/\n{2,}---/g, "\n---");
  },
};
