import { readFileSync } from "node:fs";
import type { RequestOptions } from "node:https";
import { dirname, resolve } from "node:path";
import type { Cluster, Context, KubeConfig, User } from "@kubernetes/client-node";
import { newClusters, newContexts, newUsers } from "@kubernetes/client-node/dist/config_types.js";
import { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";
import { parse } from "yaml";

/** The members of the library's KubeConfig that we use. */
type Used =
  | "clusters"
  | "users"
  | "loadFromFile"
  | "loadFromOptions"
  | "setCurrentContext"
  | "getCurrentContext"
  | "getContexts"
  | "getContextObject"
  | "getCurrentCluster"
  | "getUsers"
  | "getUser"
  | "getCurrentUser"
  | "applyToHTTPSOptions";

/**
 * A kubeconfig, compatible with the library's KubeConfig. The library also loads a class for each kind of the
 * Kubernetes API: 860 files, 88 MB and half of a command's CPU time. We load only its parts that read the file and
 * run exec plugins. We load the whole library only for auth providers (`oidc` and older ones) and for proxies.
 */
export class KubeconfigFile implements Pick<KubeConfig, Used> {
  clusters: Cluster[] = [];
  users: User[] = [];
  contexts: Context[] = [];
  currentContext = "";
  readonly #exec = new ExecAuth();
  #whole: KubeConfig | undefined;

  /** Reads a file. Paths of certificates are relative to it. Throws if it is not a kubeconfig. */
  loadFromFile(file: string): void {
    const content = parse(readFileSync(file, "utf8"), { logLevel: "error" });
    if (typeof content !== "object" || content === null) throw new Error("it has no clusters, users and contexts");
    const absolute = (path: string | undefined | null) => (path ? resolve(dirname(file), path) : path);
    this.loadFromOptions({
      clusters: newClusters(content.clusters).map((each) => ({ ...each, caFile: absolute(each.caFile) })),
      users: newUsers(content.users).map((each) => {
        return { ...each, certFile: absolute(each.certFile), keyFile: absolute(each.keyFile) };
      }),
      contexts: newContexts(content.contexts),
      currentContext: content["current-context"],
    });
  }

  loadFromOptions(options: Partial<Record<"clusters" | "users" | "contexts" | "currentContext", unknown>>): void {
    Object.assign(this, options);
    this.#whole = undefined;
  }

  setCurrentContext(name: string): void {
    this.currentContext = name;
  }

  getCurrentContext(): string {
    return this.currentContext;
  }

  getContexts(): Context[] {
    return this.contexts;
  }

  getContextObject(name: string): Context | null {
    return this.contexts.find((each) => each.name === name) ?? null;
  }

  getCurrentCluster(): Cluster | null {
    const context = this.getContextObject(this.currentContext);
    return this.clusters.find((each) => each.name === context?.cluster) ?? null;
  }

  getUsers(): User[] {
    return this.users;
  }

  getUser(name: string): User | null {
    return this.users.find((each) => each.name === name) ?? null;
  }

  getCurrentUser(): User | null {
    const context = this.getContextObject(this.currentContext);
    return context === null ? null : this.getUser(context.user);
  }

  /**
   * Sets TLS options, headers and `auth`. Reads certificate files again, and runs an exec plugin again when its token
   * has expired.
   */
  async applyToHTTPSOptions(options: RequestOptions): Promise<void> {
    const [cluster, user] = [this.getCurrentCluster(), this.getCurrentUser()];
    if (user?.authProvider || cluster?.proxyUrl !== undefined)
      return (await this.#library()).applyToHTTPSOptions(options);
    if (cluster?.server.startsWith("http:") && !cluster.skipTLSVerify) {
      throw new Error("the server's address has no TLS; set insecure-skip-tls-verify to allow that");
    }
    const headers: Record<string, string> = {};
    options.headers = headers;
    if (cluster?.skipTLSVerify) options.rejectUnauthorized = false;
    set(options, "servername", cluster?.tlsServerName);
    set(options, "ca", fileOrData(cluster?.caFile, cluster?.caData));
    if (user === null) return;
    set(options, "cert", fileOrData(user.certFile, user.certData));
    set(options, "key", fileOrData(user.keyFile, user.keyData));
    if (user.impersonateUser) headers["Impersonate-User"] = user.impersonateUser;
    if (user.exec) await this.#exec.applyAuthentication(user, options);
    if (user.token) headers.Authorization = `Bearer ${user.token}`;
    if (user.username) options.auth = `${user.username}:${user.password}`;
  }

  async #library(): Promise<KubeConfig> {
    if (this.#whole === undefined) {
      const library = await import("@kubernetes/client-node/dist/config.js");
      this.#whole = new library.KubeConfig();
      const { clusters, users, contexts } = this;
      this.#whole.loadFromOptions({ clusters, users, contexts });
    }
    this.#whole.setCurrentContext(this.currentContext);
    return this.#whole;
  }
}

function set<K extends keyof RequestOptions>(options: RequestOptions, key: K, value: RequestOptions[K] | null): void {
  if (value) options[key] = value;
}

function fileOrData(file: string | undefined, data: string | undefined): Buffer | undefined {
  if (file) return readFileSync(file);
  return data ? Buffer.from(data, "base64") : undefined;
}
