// That RepriseChatTransport is a ChatTransport of the AI SDK, and ChatStreams takes its streams. Nothing runs this: it is compiled.
import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai'
import { ChatStreams, RepriseChatTransport } from 'reprise/ai'

export const transport: ChatTransport<UIMessage> = new RepriseChatTransport()

export async function answer(chats: ChatStreams<UIMessageChunk>, chunks: ReadableStream<UIMessageChunk>, request: Request) {
  return Response.json(await chats.start('chat', () => chunks, { key: request.headers.get('Idempotency-Key') }))
}
