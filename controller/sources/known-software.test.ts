import assert from "node:assert/strict";
import { test } from "node:test";
import { isOf, KNOWN_SOFTWARE, softwareNamed, softwareOfInstallation } from "./known-software.ts";

function named(controller: string): string {
  const found = softwareNamed({ className: "any", controller });
  return found === undefined || found === "outside" ? String(found) : [...found].join();
}

test("a controller is identified by its exact name; HAProxy's projects append a class to theirs", () => {
  for (const [controller, expected] of [
    ["k8s.io/ingress-nginx", "ingress-nginx"],
    ["k8s.io/ingress-nginx/internal", "undefined"],
    ["k8s.io/ingress-nginx/", "undefined"],
    ["k8s.io/ingress-nginx-internal", "undefined"],
    ["nginx.org/ingress-controller", "F5 NGINX Ingress Controller"],
    ["nginx.org/ingress-controller/x", "undefined"],
    ["haproxy.org/ingress-controller", "HAProxy Technologies' ingress controller"],
    ["haproxy.org/ingress-controller/prod", "HAProxy Technologies' ingress controller"],
    ["haproxy.org/ingress-controller/", "undefined"],
    ["haproxy.org/ingress-controller/a/b", "undefined"],
    ["haproxy.org/ingress-controllers/a", "undefined"],
    ["haproxy-ingress.github.io/controller/staging", "HAProxy Ingress"],
    ["traefik.io/ingress-controller/x", "undefined"],
    ["agentgateway.dev/agentgateway", "agentgateway"],
    ["kgateway.dev/agentgateway", "agentgateway"],
    ["ingress.k8s.aws/alb", "outside"],
    ["ingress.k8s.aws/alb/x", "undefined"],
    ["", "undefined"],
  ] as const) {
    assert.equal(named(controller), expected, controller);
  }
});

test("ingress-nginx has names of its own for several installations, and its annotations count under all", () => {
  for (const [controller, isOwn] of [
    ["k8s.io/ingress-nginx-internal", true],
    ["k8s.io/internal-ingress-nginx", true],
    ["webapprouting.kubernetes.azure.com/nginx", true],
    ["approuting.kubernetes.azure.com/nginx-internal", true],
    ["k8s.io/ingress-nginx", false],
    ["k8s.io/ingress-nginx-", false],
    ["k8s.io/ingress-nginx-a/b", false],
    ["k8s.io/ingress-nginxx", false],
    ["approuting.kubernetes.azure.com/", false],
    ["nginx.org/ingress-controller", false],
  ] as const) {
    const titles = [...(softwareOfInstallation({ className: "any", controller }) ?? [])];
    assert.deepEqual(titles, isOwn ? ["ingress-nginx"] : [], controller);
    assert.equal(
      isOf("ingress-nginx", { className: "any", controller }),
      isOwn || controller === "k8s.io/ingress-nginx",
      controller,
    );
  }
});

test("no two projects share the name of a controller", () => {
  const names = KNOWN_SOFTWARE.flatMap(({ controllers = [] }) => controllers);
  assert.equal(new Set(names).size, names.length);
});
