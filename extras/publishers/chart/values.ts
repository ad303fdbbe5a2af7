import * as v from "valibot";
import type { Section } from "#lib/config/sections.ts";
import { optionalSetting } from "#lib/config/values.ts";
import { strictObject } from "#lib/errors/schemas.ts";
import { componentSchema, placement, replicated, resources } from "#manifests/pod-values.ts";
import { PUBLISHERS } from "../names.ts";

const publishersSchema = strictObject({
  remove: optionalSetting(v.array(v.picklist(PUBLISHERS)), "Disabled publishers whose names the next upgrade removes."),
  ...placement,
  topologySpreadConstraints: replicated.topologySpreadConstraints,
  nodeFlags: componentSchema.entries.nodeFlags,
  resources: optionalSetting(resources, "Requests and limits of the containers."),
});

/** The section of the chart's values. */
export const PUBLISHERS_VALUES: Section = {
  name: "publishers",
  schema: optionalSetting(publishersSchema, "Pods of the publishers that `config.publishers` enables."),
};
