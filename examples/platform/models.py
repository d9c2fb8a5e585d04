"""The bodies of the platform's requests."""
from pydantic import BaseModel


class Agent(BaseModel):
    name: str


class Act(BaseModel):
    action: str


class Story(BaseModel):
    title: str


class Text(BaseModel):
    text: str


class Vote(BaseModel):
    votes: int
