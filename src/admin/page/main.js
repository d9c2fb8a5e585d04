// The page as a whole: the current view, login and logout, colours, and the connection to the gateway.
import {listen, request, signals} from "/api.js";
import {announce, byId, say} from "/dom.js";
import {showKeys, startKeys} from "/keys.js";
import {addHistory, addStats, startOverview} from "/overview.js";
import {showStreams} from "/streams.js";

const views = ["overview", "keys"];
const retryAfterMilliseconds = 3000;
let stopListening = null;
let loggedOut = false;
let heardToken = null;

function currentView() {
  const name = location.hash.slice(1).split("/")[0];
  return views.includes(name) ? name : "overview";
}

function showView() {
  const view = currentView();
  byId("login-view").hidden = !loggedOut;
  for (const name of views) {
    byId(`${name}-view`).hidden = loggedOut || name !== view;
    const link = byId(`nav-${name}`);
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = loggedOut ? "Log in – Once" : `${view === "keys" ? "Keys" : "Overview"} – Once`;
  if (loggedOut) byId("token").focus();
  else if (view === "keys") showKeys(location.hash.split("/")[1]);
}

const liveWords = {connecting: "Connecting", live: "Live", lost: "Reconnecting", refused: "Too many viewers", draining: "Draining", out: "Logged out"};
function setLive(state) {
  byId("live").dataset.state = state;
  say(byId("live-text"), liveWords[state]);
}

function connect() {
  stopListening?.();
  setLive("connecting");
  stopListening = listen({
    history: addHistory,
    stats(stats) {
      setLive(stats.draining ? "draining" : "live");
      say(byId("version"), stats.version);
      if (heardToken !== stats.needs_token) byId("logout").hidden = !stats.needs_token;
      heardToken = stats.needs_token;
      addStats(stats);
      showStreams(stats.streams, !loggedOut && currentView() === "overview");
    },
    state(state) {
      if (loggedOut || state === "live") return;
      setLive(state);
      if (state === "refused") setTimeout(() => loggedOut || connect(), retryAfterMilliseconds);
    },
  });
}

function askForToken() {
  if (loggedOut) return;
  loggedOut = true;
  stopListening?.();
  setLive("out");
  byId("logout").hidden = true;
  heardToken = null;
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  showView();
}

async function logIn(event) {
  event.preventDefault();
  const field = byId("token");
  say(byId("login-error"), "");
  try {
    await request("POST", "/v1/login", {token: field.value});
  } catch (problem) {
    say(byId("login-error"), problem.status === 401 ? "Wrong token." : problem.message);
    field.select();
    return;
  }
  field.value = "";
  loggedOut = false;
  showView();
  connect();
  byId("main").focus({preventScroll: true});  // the header stays in view
}

async function logOut() {
  await request("POST", "/v1/logout").catch(() => {});
  askForToken();
  announce("Logged out");
}

// "", "light" or "dark", kept in this browser.
const themes = {"": ["Auto", "same as the system"], light: ["Light", "light"], dark: ["Dark", "dark"]};
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  const [text, words] = themes[name];
  say(byId("theme-text"), text);
  byId("theme").setAttribute("aria-label", `Colours: ${words}`);
}
function savedTheme() {
  try {
    const name = localStorage.getItem("once-theme") ?? "";
    return name in themes ? name : "";
  } catch {
    return "";
  }
}
function nextTheme() {
  const names = Object.keys(themes);
  const name = names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length];
  try {
    localStorage.setItem("once-theme", name);
  } catch {
    // Without local storage it still works for this page view.
  }
  setTheme(name);
}

setTheme(savedTheme());
byId("theme").addEventListener("click", nextTheme);
byId("logout").addEventListener("click", logOut);
byId("login-form").addEventListener("submit", logIn);
signals.addEventListener("login", askForToken);
addEventListener("hashchange", showView);
startOverview();
startKeys();
showView();
connect();
