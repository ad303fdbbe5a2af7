import { binary } from "../binaries.ts";
import { runTool, type ToolResult } from "../tools.ts";
import { ADMIN_KUBECONFIG, statePath } from "./layout.ts";
import { inNamespace } from "./run.ts";

/**
 * Runs kubectl or helm against the cluster of this machine. The API server's address exists only in the node's
 * namespace, so the tool runs there too. From outside, its packets would go to another machine with that address.
 */
export async function nodeTool(name: "kubectl" | "helm", args: string[], input = ""): Promise<ToolResult> {
  return await nodeProgram(await binary(name), args, input);
}

/** Runs any program in the node's namespace and with the cluster's kubeconfig. */
export async function nodeProgram(program: string, args: string[], input = ""): Promise<ToolResult> {
  const [command, all] = inNamespace("node", program, args);
  return await runTool(command, all, toolEnv(), input);
}

/** An environment that neither shows nor changes the user's own configuration. */
export function toolEnv(): Record<string, string> {
  const home = statePath("home");
  return { HOME: home, KUBECACHEDIR: `${home}/kube`, KUBECONFIG: ADMIN_KUBECONFIG };
}

/** Returns standard output. @throws with the tool's error message. */
export async function kubectl(args: string[], input = ""): Promise<string> {
  const { code, stdout, stderr } = await nodeTool("kubectl", args, input);
  if (code !== 0) throw new Error(`kubectl ${args.join(" ")}: ${stderr.trim() || `code ${code}`}`);
  return stdout;
}
