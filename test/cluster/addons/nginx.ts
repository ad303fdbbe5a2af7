import type { Cluster } from "../cluster.ts";
import { IMAGES } from "../images.ts";
import { CLUSTER_DOMAIN, STACK } from "../node/layout.ts";
import { NGINX, publishAddress } from "./load-balancers.ts";
import { deployment, namespace, service } from "./objects.ts";
import { traefik } from "./traefik.ts";

/** Name of the Traefik that routes requests behind nginx. */
const ROUTES = "ingress-nginx-routes";
const ROUTES_HOST = `${ROUTES}.${NGINX.namespace}.svc.${CLUSTER_DOMAIN}`;
const PORTS = { http: 8080, https: 8443 };

/**
 * Behaves like ingress-nginx behind a load balancer that speaks PROXY protocol: nginx rejects clients without a
 * header. It passes all other requests to a Traefik for the IngressClass `nginx`. So no nginx configuration has to
 * follow Ingress objects.
 */
export async function install(cluster: Cluster): Promise<void> {
  const { namespace: ns, service: name, nodePorts } = NGINX;
  await cluster.apply(
    namespace(ns),
    ...traefik({
      namespace: ns,
      name: ROUTES,
      ingressClass: "nginx",
      args: ["--entrypoints.web.forwardedHeaders.insecure=true"],
    }),
    service(ns, ROUTES, {
      app: ROUTES,
      ports: [
        { name: "web", port: 80, targetPort: "web" },
        { name: "websecure", port: 443, targetPort: "websecure" },
      ],
    }),
    { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: ns, name }, data: { "nginx.conf": CONFIGURATION } },
    service(ns, name, {
      app: name,
      type: "LoadBalancer",
      ipFamilyPolicy: "PreferDualStack",
      ports: [
        { name: "http", port: 80, targetPort: "http", nodePort: nodePorts.http },
        { name: "https", port: 443, targetPort: "https", nodePort: nodePorts.https },
      ],
    }),
    deployment({
      namespace: ns,
      name,
      image: IMAGES.nginx,
      command: ["/usr/sbin/nginx", "-e", "stderr", "-c", "/etc/nginx/nginx.conf"],
      config: { name, path: "/etc/nginx" },
      ports: PORTS,
      readinessProbe: { tcpSocket: { port: 8081 } },
    }),
  );
  await publishAddress(cluster, NGINX);
  await cluster.rolledOut(ns, `deployment/${ROUTES}`, `deployment/${name}`);
}

/** A listening socket for each family, because a kernel may lack IPv6. */
function listenOn(port: number): string {
  const sockets = [...(STACK === "ipv6" ? [] : [`${port}`]), ...(STACK === "ipv4" ? [] : [`[::]:${port}`])];
  return sockets.map((socket) => `    listen ${socket} proxy_protocol;\n`).join("");
}

const CONFIGURATION = `daemon off;
pid /tmp/nginx.pid;
worker_processes 1;
error_log stderr info;
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
events {}
http {
  client_body_temp_path /tmp/body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;
  log_format front 'client=$proxy_protocol_addr host=$host "$request" $status';
  access_log /dev/stdout front;
  server {
${listenOn(PORTS.http)}    location / {
      proxy_pass http://${ROUTES_HOST};
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $proxy_protocol_addr;
    }
  }
  # For the readiness probe, which sends no header.
  server {
    listen ${STACK === "ipv6" ? "[::]:8081" : "8081"};
    access_log off;
    return 204;
  }
}
stream {
  log_format front 'client=$proxy_protocol_addr tls $status';
  access_log /dev/stdout front;
  server {
${listenOn(PORTS.https)}    proxy_pass ${ROUTES_HOST}:443;
  }
}
`;
