"use strict";
(function () {
  var root = document.documentElement;
  var all = function (selector, within) { return Array.prototype.slice.call((within || document).querySelectorAll(selector)); };

  // Dark or light, over the system's choice.
  var theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", function () {
    var system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  });

  // Numbers as the page writes them: three digits and a unit.
  var prefixes = {
    time: [["ns", 1], ["us", 1e3], ["ms", 1e6], ["s", 1e9]],
    iops: [["IOPS", 1], ["kIOPS", 1e3], ["MIOPS", 1e6]],
    bandwidth: [["B/s", 1], ["kB/s", 1e3], ["MB/s", 1e6], ["GB/s", 1e9]],
    bytes: [["B", 1], ["KiB", 1024], ["MiB", 1048576], ["GiB", 1073741824], ["TiB", 1099511627776]],
    fraction: [["%", 0.01]],
    factor: [["×", 1]],
    plain: [["", 1]]
  };
  function show(value, unit) {
    var list = prefixes[unit] || [[unit, 1]];
    var chosen = list[0];
    list.forEach(function (prefix) { if (Math.abs(value) / prefix[1] >= 0.9995) chosen = prefix; });
    var scaled = value / chosen[1];
    // A tail fraction is told by its nines, which three digits would round away.
    var digits = unit === "fraction" && scaled > 99 && 100 > scaled ? Math.min(6, 3 - Math.floor(Math.log10(100 - scaled))) + 1 : 3;
    return String(parseFloat(scaled.toPrecision(digits))) + (chosen[0] ? "\u00a0" + chosen[0] : "");
  }

  // One tooltip for everything.
  var tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.appendChild(tip);
  function point(event, text) {
    tip.textContent = text;
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    var left = event.clientX + 14;
    if (left + box.width > innerWidth - 8) left = Math.max(8, event.clientX - box.width - 14);
    tip.style.left = left + "px";
    tip.style.top = Math.max(8, event.clientY - box.height - 12) + "px";
  }
  function clear() { tip.hidden = true; }
  all("[title]").forEach(function (node) {
    var text = node.getAttribute("title");
    if (!text) return;
    node.removeAttribute("title");
    node.setAttribute("aria-label", text);
    node.addEventListener("pointermove", function (event) { point(event, text); });
    node.addEventListener("pointerleave", clear);
  });
  addEventListener("scroll", clear, { passive: true });

  // Charts: values are read back from the drawing's own coordinates.
  function scale(text) {
    var parts = text.split("|");
    var low = Number(parts[1]), high = Number(parts[2]), unit = parts[3], names = parts.slice(4);
    var to = { linear: function (v) { return v; }, log: Math.log, nines: function (v) { return -Math.log10(1 - v); } }[parts[0]];
    var from = { linear: function (v) { return v; }, log: Math.exp, nines: function (v) { return 1 - Math.pow(10, -v); } }[parts[0]];
    return function (place) {
      var value = from(to(low) + place * (to(high) - to(low)));
      return names.length ? names[Math.round(value)] || "" : show(value, unit);
    };
  }
  all("figure.chart").forEach(function (figure) {
    var svg = figure.querySelector("svg");
    var x = scale(svg.dataset.x), y = scale(svg.dataset.y);
    var lines = all("g.line", svg).map(function (group) {
      var numbers = (group.querySelector(".stroke").getAttribute("d").match(/\d+/g) || []).map(Number);
      var points = [];
      for (var i = 0; numbers.length > i + 1; i += 2) points.push([numbers[i], numbers[i + 1]]);
      return { group: group, points: points, name: group.dataset.name };
    });
    var cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
    cursor.setAttribute("class", "cursor");
    svg.appendChild(cursor);
    figure.querySelector(".area").addEventListener("pointermove", function (event) {
      var box = svg.getBoundingClientRect();
      var at = (event.clientX - box.left) / box.width * 10000;
      var near = null;
      lines.forEach(function (line) {
        if (line.group.classList.contains("off")) return;
        line.points.forEach(function (p) { if (near === null || Math.abs(near - at) > Math.abs(p[0] - at)) near = p[0]; });
      });
      if (near === null) return;
      var text = [x(near / 10000)];
      lines.forEach(function (line) {
        if (line.group.classList.contains("off") || !line.points.length) return;
        var own = line.points.reduce(function (a, b) { return Math.abs(b[0] - near) > Math.abs(a[0] - near) ? a : b; });
        var where = Math.abs(own[0] - near) > 60 ? " at " + x(own[0] / 10000) : "";
        text.push((line.name ? line.name + ": " : "") + y(1 - own[1] / 10000) + where);
      });
      cursor.setAttribute("d", "M" + near + " 0V10000");
      point(event, text.join("\n"));
    });
    figure.querySelector(".area").addEventListener("pointerleave", function () { cursor.removeAttribute("d"); clear(); });

    // A line goes and comes with its key in the legend.
    var keys = all(".key[data-line]", figure);
    if (keys.length > 1) keys.forEach(function (key) {
      key.setAttribute("role", "button");
      key.tabIndex = 0;
      key.setAttribute("aria-pressed", "true");
      var toggle = function () {
        var off = key.classList.toggle("off");
        key.setAttribute("aria-pressed", String(!off));
        lines.forEach(function (line) { if (line.group.dataset.line === key.dataset.line) line.group.classList.toggle("off", off); });
      };
      key.addEventListener("click", toggle);
      key.addEventListener("keydown", function (event) {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
      });
    });
  });

  // Many points: one at a time, chosen from a list.
  var points = all("article.point");
  if (points.length > 1) {
    var picker = document.createElement("div");
    picker.className = "picker";
    var back = document.createElement("button"), next = document.createElement("button"), select = document.createElement("select");
    back.type = next.type = "button";
    back.textContent = "← Back";
    next.textContent = "Next →";
    select.setAttribute("aria-label", "Point");
    points.forEach(function (article, index) {
      var option = document.createElement("option");
      option.value = String(index);
      option.textContent = article.querySelector("h3").textContent;
      select.appendChild(option);
    });
    var choose = function (index) {
      points.forEach(function (article, at) { article.hidden = at !== index; });
      select.value = String(index);
      back.disabled = index === 0;
      next.disabled = index === points.length - 1;
    };
    var hash = function () {
      points.forEach(function (article, index) {
        if ("#" + article.id === location.hash) { choose(index); article.scrollIntoView(); }
      });
    };
    select.addEventListener("change", function () { choose(Number(select.value)); });
    back.addEventListener("click", function () { choose(Number(select.value) - 1); });
    next.addEventListener("click", function () { choose(Number(select.value) + 1); });
    [back, select, next].forEach(function (node) { picker.appendChild(node); });
    points[0].parentNode.insertBefore(picker, points[0]);
    choose(0);
    hash();
    addEventListener("hashchange", hash);
    // The same link twice changes no hash.
    all("a[href^='#point-']").forEach(function (link) { link.addEventListener("click", function () { setTimeout(hash, 0); }); });
  }
})();
