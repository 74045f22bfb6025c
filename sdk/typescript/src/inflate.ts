type Bytes = Uint8Array<ArrayBuffer>

/** Decodes a body in gzip or deflate, and returns what was flushed without waiting for more. */
export function inflated(body: ReadableStream<Bytes>, coding: string): ReadableStream<Bytes> {
  const source = body.getReader()
  let reader: ReadableStreamDefaultReader<Bytes> | undefined
  return new ReadableStream<Bytes>(
    {
      async pull(controller) {
        reader ??= await begin(source, coding)
        const { value } = await reader.read()
        if (value) controller.enqueue(value)
        else controller.close()
      },
      cancel: (reason) => source.cancel(reason),
    },
    { highWaterMark: 0 },
  )
}

/** Begins to decode when the first bytes have come, which show the format: some servers omit the header of deflate. */
async function begin(source: ReadableStreamDefaultReader<Bytes>, coding: string): Promise<ReadableStreamDefaultReader<Bytes>> {
  const { value: first } = await source.read()
  const rest = new ReadableStream<Bytes>({
    start: (controller) => first && controller.enqueue(first),
    async pull(controller) {
      const { value } = await source.read()
      if (value) controller.enqueue(value)
      else controller.close()
    },
  })
  return rest.pipeThrough(new DecompressionStream(formatOf(coding, first))).getReader()
}

/** The format of a coding, whose name is gzip or deflate. */
function formatOf(coding: string, [first = 0, second = 0]: Bytes = new Uint8Array()): CompressionFormat {
  if (/gzip/i.test(coding)) return 'gzip'
  return (first & 15) === 8 && (first * 256 + second) % 31 === 0 ? 'deflate' : 'deflate-raw'
}
