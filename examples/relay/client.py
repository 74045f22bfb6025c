"""The SDK of OpenAI asks again, with the same key, until it has the whole answer."""

import sys
import uuid

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="of the backend")
whole = "".join(f"{i} " for i in range(60))
key = str(uuid.uuid4())
for tries in range(1, 21):
    text = ""
    try:
        for chunk in client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "count"}], stream=True, extra_headers={"Idempotency-Key": key}
        ):
            text += chunk.choices[0].delta.content or ""
        if text != whole:
            sys.exit(f"something is missing: {text}")
        print(f"OpenAI for Python: whole at the {tries}. try")
        break
    except Exception as error:
        print(f"OpenAI for Python: cut after {len(text.split())} words: {type(error).__name__}")
else:
    sys.exit("never whole")
