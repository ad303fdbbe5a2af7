import type { KubeObject } from "../cluster.ts";
import { USER } from "../images.ts";

const UID = Number(USER.split(":")[0]);

/** The security context that the restricted Pod Security Standard asks for. */
export const RESTRICTED_POD = {
  runAsNonRoot: true,
  runAsUser: UID,
  runAsGroup: UID,
  seccompProfile: { type: "RuntimeDefault" },
};
export const RESTRICTED_CONTAINER = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };

export function namespace(name: string): KubeObject {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name } };
}

export function serviceAccount(namespaceName: string, name: string): KubeObject {
  return { apiVersion: "v1", kind: "ServiceAccount", metadata: { namespace: namespaceName, name } };
}

export interface DeploymentOptions {
  namespace: string;
  name: string;
  image: string;
  /** Default: `Never`, because images are imported and there is no registry. */
  pullPolicy?: string;
  args?: string[];
  command?: string[];
  ports?: Record<string, number>;
  serviceAccountName?: string;
  readinessProbe?: object;
  /** A ConfigMap with these texts by key, mounted at `path`. */
  config?: { name: string; path: string };
  annotations?: Record<string, string>;
}

/**
 * A Deployment with one replica, the restricted security context, an empty /tmp, and pods with the label `app:
 * <name>`.
 */
export function deployment(options: DeploymentOptions): KubeObject {
  const { name, image, args, command, config } = options;
  const volumes: object[] = [{ name: "tmp", emptyDir: {} }];
  const volumeMounts: object[] = [{ name: "tmp", mountPath: "/tmp" }];
  if (config !== undefined) {
    volumes.push({ name: "config", configMap: { name: config.name } });
    volumeMounts.push({ name: "config", mountPath: config.path, readOnly: true });
  }
  const ports = Object.entries(options.ports ?? {}).map(([port, containerPort]) => ({ name: port, containerPort }));
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { namespace: options.namespace, name, labels: { app: name } },
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name }, ...(options.annotations && { annotations: options.annotations }) },
        spec: {
          ...(options.serviceAccountName && { serviceAccountName: options.serviceAccountName }),
          terminationGracePeriodSeconds: 2,
          enableServiceLinks: false,
          securityContext: RESTRICTED_POD,
          containers: [
            {
              name,
              image,
              imagePullPolicy: options.pullPolicy ?? "Never",
              ...(command && { command }),
              ...(args && { args }),
              ...(options.readinessProbe && { readinessProbe: { periodSeconds: 1, ...options.readinessProbe } }),
              ports,
              volumeMounts,
              securityContext: { ...RESTRICTED_CONTAINER, readOnlyRootFilesystem: true },
            },
          ],
          volumes,
        },
      },
    },
  };
}

interface ServicePort {
  name: string;
  port: number;
  targetPort: string;
  nodePort?: number;
}

interface ServiceOptions {
  app: string;
  ports: ServicePort[];
  type?: "ClusterIP" | "LoadBalancer";
  /** Default: one family, the first one of the cluster. */
  ipFamilyPolicy?: string;
  ipFamilies?: string[];
}

/** A Service for the pods with the label `app: <app>`. */
export function service(namespaceName: string, name: string, { app, ...spec }: ServiceOptions): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: namespaceName, name },
    spec: { type: "ClusterIP", selector: { app }, ...spec },
  };
}
