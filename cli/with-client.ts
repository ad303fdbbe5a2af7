import { type ConnectedClient, type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";

/** Connects as the flags say, under the command's name, and closes the connection after `work`. */
export async function withClient<T>(
  command: string,
  flags: ConnectFlags,
  { env }: CliContext,
  work: (client: ConnectedClient) => Promise<T>,
): Promise<T> {
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: `switchback-${command}` });
  return await work(client).finally(() => client.close());
}
