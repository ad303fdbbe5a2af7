import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "#lib/errors/errors.ts";
import { corePath, resourcePath, serviceProxyPath, withQuery } from "./paths.ts";

describe("API paths", () => {
  it("have a form for the core group and one for others, with and without a namespace", () => {
    assert.equal(corePath("namespaces"), "/api/v1/namespaces");
    assert.equal(corePath("configmaps", "shop", "hosts"), "/api/v1/namespaces/shop/configmaps/hosts");
    const ingresses = { group: "networking.k8s.io", version: "v1", resource: "ingresses" };
    assert.equal(resourcePath(ingresses), "/apis/networking.k8s.io/v1/ingresses");
    assert.equal(
      resourcePath({ ...ingresses, namespace: "shop", name: "web", subresource: "status" }),
      "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web/status",
    );
  });

  it("lead to a Service through the API server's proxy", () => {
    assert.equal(
      serviceProxyPath("own", { name: "controller", port: "http" }, "/status"),
      "/api/v1/namespaces/own/services/controller:http/proxy/status",
    );
  });

  // The API server decodes %2F before it splits the path.
  for (const name of ["", ".", "..", "web/scale", "../../b", "web%2fscale"]) {
    it(`refuses ${JSON.stringify(name)} as a name`, () => {
      assert.throws(
        () => corePath("secrets", "shop", name),
        (error) => hasCode(error, "input-invalid"),
      );
    });
  }

  it("encodes a name, so that it cannot change the path or add a query", () => {
    assert.equal(corePath("pods", "a", "b?c#d e"), "/api/v1/namespaces/a/pods/b%3Fc%23d%20e");
  });

  it("omits empty parameters", () => {
    assert.equal(withQuery("/x", { a: "", b: undefined }), "/x");
    assert.equal(withQuery("/x", { a: "k=v,w!=z", limit: 5, watch: true }), "/x?a=k%3Dv%2Cw%21%3Dz&limit=5&watch=true");
  });
});
