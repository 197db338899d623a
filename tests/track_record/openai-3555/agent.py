"""The smallest agent there is: one question by the provider's own SDK, with the SDK's own retries."""

import openai

client = openai.OpenAI(api_key="none", max_retries=2)
reply = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "How are you?"}])
with open("answer.txt", "w") as file:
    file.write(reply.choices[0].message.content)
