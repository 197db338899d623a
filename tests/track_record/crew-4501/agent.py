"""A flow that plans a journey: it asks until it has three answers. Its state is stored after each step, by its id."""

import os

from crewai.flow.flow import Flow, listen, router, start
from crewai.flow.persistence import SQLiteFlowPersistence, persist
from outside import ask, durable
from pydantic import BaseModel

QUESTIONS = ("Where to?", "When?", "With whom?")
ID = durable("id.txt")
store = SQLiteFlowPersistence(durable("flow.db"))


class Journey(BaseModel):
    id: str = ""  # it is given one
    answers: list[str] = []


@persist(store)
class Planning(Flow[Journey]):
    @start()
    def begin(self):
        with open(ID, "w") as file:
            file.write(self.state.id)

    @router(begin)
    def first(self):
        return self.what_now()

    @listen("open")
    def answer(self):
        answers = self.state.answers
        pairs = [text for pair in zip(QUESTIONS, answers, strict=False) for text in pair]
        self.state.answers = [*answers, ask(*pairs, QUESTIONS[len(answers)])]

    @router(answer)
    def next(self):
        return self.what_now()

    @listen("complete")
    def finish(self):
        with open("plan.txt", "w") as file:
            file.write("\n".join(self.state.answers))

    def what_now(self):
        return "open" if len(self.state.answers) < len(QUESTIONS) else "complete"


inputs = None
if os.path.exists(ID):
    with open(ID) as file:
        inputs = {"id": file.read()}
Planning().kickoff(inputs=inputs)
