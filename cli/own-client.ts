import type { KubeClient } from "#lib/kube/client.ts";
import type { Running } from "./component.ts";

/** Starts a component with a connection of its own, which is closed once the component has stopped, or has not started. */
export async function withOwnClient(
  connect: () => Promise<KubeClient>,
  start: (client: KubeClient) => Promise<Running>,
): Promise<Running> {
  const client = await connect();
  try {
    const running = await start(client);
    return {
      ...running,
      async stop() {
        await running.stop();
        client.close();
      },
    };
  } catch (error) {
    client.close();
    throw error;
  }
}
