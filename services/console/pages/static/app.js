"use strict";

// Everything on these pages works without this file, but for what changes while one looks.
(() => {
  // "/" goes to the search field.
  document.addEventListener("keydown", (event) => {
    const field = document.getElementById("find-name");
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement ? document.activeElement.tagName : "");
    if (event.key === "/" && field && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      field.focus();
    }
  });

  // The state of the cluster is fetched anew while somebody looks at it. Texts stay texts: the page is parsed,
  // and its elements are moved over.
  const live = document.getElementById("live");
  if (live) {
    const refresh = async () => {
      if (document.hidden || live.contains(document.activeElement)) return;
      try {
        const response = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
        if (response.redirected) { location.reload(); return; }
        if (!response.ok) return;
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const next = page.getElementById("live");
        if (!next || live.contains(document.activeElement)) return;
        live.replaceChildren(...next.childNodes);
        const at = document.querySelector("footer span"), then = page.querySelector("footer span");
        if (at && then) at.textContent = then.textContent;
      } catch (error) { /* the next attempt may succeed */ }
    };
    setInterval(refresh, 1000 * Number(live.dataset.refresh || 5));
  }

  // New records appear on top as they are written.
  const rows = document.getElementById("rows");
  if (rows && rows.dataset.tail && window.EventSource) {
    const most = 300, state = document.getElementById("tail-state");
    const element = (name, type, text) => {
      const e = document.createElement(name);
      if (type) e.className = type;
      if (text !== undefined) e.textContent = text;
      return e;
    };
    const words = { claim: "nodeclaim", pool: "nodepool" };
    const link = (subject) => {
      const [kind, ...rest] = subject.split("/");
      return "/object/" + encodeURIComponent(words[kind] || kind) + "/" + rest.map(encodeURIComponent).join("/");
    };
    const show = (record) => {
      const first = rows.querySelector("[data-seq]");
      if (first && Number(first.dataset.seq) >= record.seq) return;
      const row = element("li", "row new" + (record.decision ? " decided" : "") + (record.kind === "AlarmRaised" ? " alarm" : ""));
      row.dataset.seq = record.seq;
      const time = element("time", "", record.time.slice(5, 19).replace("T", " "));
      time.dateTime = record.time;
      const seq = element("a", "seq", "#" + record.seq);
      seq.href = "/decisions/" + record.seq;
      const tags = element("span", "tags");
      for (const subject of (record.subjects || []).slice(0, 4)) {
        const tag = element("a", "tag", subject.length > 48 ? subject.slice(0, 48) + "…" : subject);
        tag.href = link(subject);
        tags.append(tag);
      }
      row.append(time, seq, element("span", "who", record.service), element("span", "kind", record.kind), element("span", "text", record.text), tags);
      for (const none of rows.querySelectorAll(".none")) none.remove();
      rows.prepend(row);
      while (rows.children.length > most) rows.lastElementChild.remove();
    };
    const source = new EventSource(rows.dataset.tail);
    source.addEventListener("open", () => { state.textContent = "live: new records appear as they are written"; });
    source.addEventListener("record", (event) => show(JSON.parse(event.data)));
    source.addEventListener("bye", () => { source.close(); location.reload(); });
    source.addEventListener("lost", () => { state.textContent = "too many records at once: reload for those that are missing"; });
    source.addEventListener("error", () => { state.textContent = "not connected: trying again"; });
    addEventListener("pagehide", () => source.close());
  }
})();
