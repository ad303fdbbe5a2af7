import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import express from "express";
import request from "supertest";
import { classesOf } from "./http-classes.ts";

test("Express finds its own prototypes and changes none of them, and its methods work", async () => {
  const app = express();
  const classes = classesOf(app);
  const seen: unknown[] = [];
  app.use((req, res) => {
    seen.push(Object.getPrototypeOf(req), Object.getPrototypeOf(res));
    res.status(201).json({ path: req.path, type: req.get("x-type"), app: req.app === app });
  });
  const server = createServer(classes, (req, res) => {
    seen.push(Object.getPrototypeOf(req), Object.getPrototypeOf(res));
    app(req, res);
  });
  const { body } = await request(server).post("/a?b=c").set("x-type", "t").expect(201);
  assert.deepEqual(body, { path: "/a", type: "t", app: true });
  const [createdRequest, createdResponse] = seen;
  assert.deepEqual(
    seen.map((prototype, index) => prototype === (index % 2 === 0 ? createdRequest : createdResponse)),
    [true, true, true, true],
  );
});

test("a server without the classes works too", async () => {
  const app = express();
  classesOf(app);
  app.use((req, res) => {
    res.json({ path: req.path });
  });
  assert.deepEqual((await request(app).get("/a")).body, { path: "/a" });
});
