import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NAMESPACE, named, type Rendered, render } from "./rendered.ts";

// What the chart renders for the agents: nothing unless asked, and no more rights than docs/running-pods.md says.

const AGENTS = "their-own";
const enabled = (more: object = {}) =>
  render({ agent: { enabled: true, ...more }, config: { agent: { namespace: AGENTS, kubeletRoot: "/data/kubelet" } } });
const podSpec = (objects: Rendered[]) => named(objects, "DaemonSet", "switchback-agent").spec.template.spec;

describe("the agents", () => {
  it("are off by default, and nothing of them is rendered", () => {
    assert.deepEqual(
      render().filter(({ metadata }) => metadata.labels["app.kubernetes.io/component"] === "agent"),
      [],
    );
  });

  it("have a namespace of their own at the level that hostPath needs; the release's is left as it is", () => {
    const objects = enabled();
    const { metadata } = named(objects, "Namespace", AGENTS);
    assert.equal(metadata.labels["pod-security.kubernetes.io/enforce"], "privileged");
    assert.equal(named(objects, "DaemonSet", "switchback-agent").metadata.namespace, AGENTS);
    assert.equal(objects.filter(({ kind }) => kind === "Namespace").length, 1);
    assert.equal(named(enabled({ createNamespace: false }), "Namespace", AGENTS), undefined);
  });

  it("run as root without capabilities, on a file system that is read-only, with one directory of the node", () => {
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
        `${NAMESPACE} configmaps list,watch`,
        `${AGENTS} daemonsets get switchback-agent`,
        `${AGENTS} leases create,patch,delete`,
      ].toSorted(),
    );
  });
});
