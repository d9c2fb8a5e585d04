// The page: shows the turns, asks new questions, and after a reload goes on with those that are open.
import { follow } from "./answer.js";
import { load, open, save, token } from "./turns.js";

const words = {
  connecting: "Connecting …",
  answering: "Answering …",
  offline: "The connection is lost. The answer goes on when it is back.",
  whole: "",
  stopped: "The answer was stopped. To ask again is a new call.",
  broken: "The answer broke off. To ask again is a new call.",
  refused: "The question was refused",
};

function show(turn) {
  const item = document.getElementById("turn").content.cloneNode(true).firstElementChild;
  const part = (name) => item.querySelector(`.${name}`);
  part("question").textContent = turn.question;
  part("again").addEventListener("click", () => ask(turn.question));
  document.getElementById("turns").append(item);
  const draw = (activity) => {
    const state = turn.state === "open" ? activity : turn.state;
    item.dataset.state = state;
    part("answer").textContent = turn.text;
    part("state").textContent = words[state] + (turn.reason ? `: ${turn.reason}` : "");
    part("again").hidden = !["stopped", "broken"].includes(turn.state);
  };
  draw("connecting");
  if (turn.state === "open") {
    follow(turn, token(), (activity) => {
      save(turn);
      draw(activity);
    });
  }
}

function ask(question) {
  show(open(question));
}

document.getElementById("ask").addEventListener("submit", (submit) => {
  submit.preventDefault();
  const input = document.getElementById("question");
  ask(input.value);
  input.value = "";
});

load().forEach(show);
