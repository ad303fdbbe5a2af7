import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NAMESPACE, named, notesOf, type Rendered, render } from "#test/integration/rendered.ts";
import { OBJECTS } from "#test/published.ts";

// What the chart renders for the agents: nothing by default, and no more rights than docs/running-pods.md says.

const AGENTS = "their-own";
const enabled = (more: object = {}) =>
  render({ agent: { enabled: true, ...more }, config: { agent: { namespace: AGENTS, kubeletRoot: "/data/kubelet" } } });
const podSpec = (objects: Rendered[]) => named(objects, "DaemonSet", "switchback-agent").spec.template.spec;

describe("the agents", () => {
  it("are off by default: nothing of them is rendered", () => {
    const own = render().filter(({ metadata }) => metadata.labels["app.kubernetes.io/component"] === "agent");
    assert.deepEqual(own, []);
  });

  it("have their own namespace, at the level that hostPath needs; the release's namespace is unchanged", () => {
    const objects = enabled();
    const { metadata } = named(objects, "Namespace", AGENTS);
    assert.equal(metadata.labels["pod-security.kubernetes.io/enforce"], "privileged");
    assert.equal(named(objects, "DaemonSet", "switchback-agent").metadata.namespace, AGENTS);
    assert.equal(objects.filter(({ kind }) => kind === "Namespace").length, 1);
    assert.equal(named(enabled({ createNamespace: false }), "Namespace", AGENTS), undefined);
  });

  it("run as root without capabilities, with a read-only file system and one directory of the node", () => {
    const { containers, securityContext, volumes, tolerations, hostNetwork, hostPID } = podSpec(enabled());
    assert.deepEqual(containers[0].securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    assert.equal(securityContext.runAsUser, 0);
    assert.deepEqual(securityContext.seccompProfile, { type: "RuntimeDefault" });
    const hostPaths = volumes.filter(({ hostPath }: Rendered) => hostPath !== undefined);
    assert.deepEqual(
      hostPaths.map(({ hostPath }: Rendered) => hostPath),
      [{ path: "/data/kubelet/pods", type: "Directory" }],
    );
    const mount = containers[0].volumeMounts.find(({ name }: Rendered) => name === "pods");
    assert.deepEqual(mount, { name: "pods", mountPath: "/data/kubelet/pods", mountPropagation: "HostToContainer" });
    assert.deepEqual(tolerations, [{ operator: "Exists" }]);
    assert.deepEqual([hostNetwork, hostPID], [undefined, undefined]);
  });

  it("mount the node's hosts file only if names are chosen for nodes or must be removed", () => {
    const withNames = (nodeHosts: object) => {
      const config = { agent: { namespace: AGENTS }, nodeHosts };
      const daemonSet = named(render({ agent: { enabled: true }, config }), "DaemonSet", "switchback-agent");
      const { containers, volumes } = daemonSet.spec.template.spec;
      const of = (list: Rendered[]) => list.find(({ name }) => name === "node-hosts");
      const { annotations } = daemonSet.metadata;
      return { annotations, volume: of(volumes), mount: of(containers[0].volumeMounts) };
    };
    assert.deepEqual(withNames({}), { annotations: undefined, volume: undefined, mount: undefined });
    const volume = { name: "node-hosts", hostPath: { path: "/etc/hosts", type: "FileOrCreate" } };
    const mount = { name: "node-hosts", mountPath: "/run/switchback-node/hosts" };
    const annotations = { "switchback.dev/node-hosts": "true" };
    assert.deepEqual(withNames({ names: ["*.example.com"] }), { annotations, volume, mount });
    assert.deepEqual(withNames({ remove: true }), { annotations: undefined, volume, mount });
    const elsewhere = withNames({ names: ["a.example.com"], hostPath: "/other/hosts", path: "/seen/hosts" });
    assert.deepEqual([elsewhere.volume.hostPath.path, elsewhere.mount.mountPath], ["/other/hosts", "/seen/hosts"]);
  });

  it("have a note about names for nodes: pods on the host's network inherit them, or agents are missing", () => {
    const config = { nodeHosts: { names: ["registry.example.com"] } };
    assert.match(notesOf({ agent: { enabled: true }, config }), /registry\.example\.com .*\n?.*host's network inherit/);
    assert.match(notesOf({ config }), /WARNING: config\.nodeHosts\.names does nothing without agent\.enabled/);
    assert.doesNotMatch(notesOf({}), /nodeHosts|host's network/);
  });

  it("have exactly these rights", () => {
    const objects = enabled();
    const bound = objects.filter(
      ({ kind, subjects }) =>
        /RoleBinding$/.test(kind) && subjects.some(({ name }: Rendered) => name === "switchback-agent"),
    );
    const rights = bound.flatMap(({ kind, metadata, roleRef }) => {
      const role = objects.find(
        (object) =>
          object.kind === roleRef.kind &&
          object.metadata.name === roleRef.name &&
          object.metadata.namespace === metadata.namespace,
      );
      return role.rules.map(({ resources, verbs, resourceNames }: Rendered) =>
        [metadata.namespace ?? kind, resources.join(), verbs.join(), ...(resourceNames ?? [])].join(" "),
      );
    });
    assert.deepEqual(
      rights.toSorted(),
      [
        "ClusterRoleBinding daemonsets,deployments,replicasets,statefulsets get",
        "ClusterRoleBinding namespaces get,list,watch",
        "ClusterRoleBinding pods list,watch",
        `${NAMESPACE} configmaps list,watch ${OBJECTS.map}`,
        `${AGENTS} daemonsets get switchback-agent`,
        `${AGENTS} leases create,patch,delete`,
      ].toSorted(),
    );
  });
});
