/**
 * The first version that the npm package runs on: of the oldest release line that Node still maintains, the first
 * that is an LTS.
 */
export const OLDEST_NODE = "22.11";
