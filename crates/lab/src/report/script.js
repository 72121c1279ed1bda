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
    time: [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]],
    iops: [["IOPS", 1], ["kIOPS", 1e3], ["MIOPS", 1e6]],
    bandwidth: [["B/s", 1], ["KiB/s", 1024], ["MiB/s", 1048576], ["GiB/s", 1073741824]],
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

  // A picture as a file: the drawing and the words around it, at their places on the screen.
  var svgns = "http://www.w3.org/2000/svg";
  var painted = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "display"];
  function picture(figure) {
    var box = figure.getBoundingClientRect(), pad = 12;
    var out = document.createElementNS(svgns, "svg");
    var width = Math.ceil(box.width) + 2 * pad, height = Math.ceil(box.height) + 2 * pad;
    var set = function (node, values) { Object.keys(values).forEach(function (key) { node.setAttribute(key, values[key]); }); return node; };
    set(out, { xmlns: svgns, width: width, height: height, viewBox: "0 0 " + width + " " + height });
    var paper = getComputedStyle(document.body).backgroundColor;
    out.appendChild(set(document.createElementNS(svgns, "rect"), { width: width, height: height, fill: paper }));
    all("svg", figure).forEach(function (svg) {
      var at = svg.getBoundingClientRect();
      all("path", svg).forEach(function (path) {
        var style = getComputedStyle(path), group = path.parentNode;
        if (style.display === "none" || getComputedStyle(group).display === "none") return;
        // The drawing's own units to places on the page, so that any program can read it.
        var d = path.getAttribute("d") || "", x = 0;
        d = d.replace(/([MLHVh])\s*(-?[\d.]+)(?:\s+(-?[\d.]+))?/g, function (whole, command, a, b) {
          var across = function (v) { return (at.left - box.left + pad + v / 10000 * at.width).toFixed(2); };
          var down = function (v) { return (at.top - box.top + pad + v / 10000 * at.height).toFixed(2); };
          if (command === "H") return "H" + across(+a);
          if (command === "V") return "V" + down(+a);
          if (command === "h") return "h" + a;
          return command + across(+a) + " " + down(+b);
        });
        var copy = document.createElementNS(svgns, "path");
        copy.setAttribute("d", d);
        painted.forEach(function (name) { copy.setAttribute(name, style.getPropertyValue(name)); });
        out.appendChild(copy);
      });
    });
    // Keys of the legend are boxes and borders of the page.
    all(".key i", figure).forEach(function (key) {
      var at = key.getBoundingClientRect(), style = getComputedStyle(key);
      out.appendChild(set(document.createElementNS(svgns, "rect"), { x: at.left - box.left + pad, y: at.top - box.top + pad, width: at.width, height: Math.max(2, at.height),
        fill: at.height > 4 ? "none" : style.borderTopColor, stroke: style.borderTopColor, rx: at.height > 4 ? at.height / 2 : 0 }));
    });
    var walker = document.createTreeWalker(figure, NodeFilter.SHOW_TEXT), node;
    while ((node = walker.nextNode())) {
      var parent = node.parentNode;
      if (!node.data.trim() || parent.closest("svg, .save")) continue;
      var style = getComputedStyle(parent), range = document.createRange();
      range.selectNodeContents(node);
      var at = range.getBoundingClientRect();
      if (!at.width || style.visibility === "hidden") continue;
      var text = set(document.createElementNS(svgns, "text"), { x: at.left - box.left + pad, y: at.top - box.top + pad + at.height / 2, "dominant-baseline": "central",
        "font-family": style.fontFamily, "font-size": style.fontSize, "font-weight": style.fontWeight, fill: style.color });
      text.textContent = node.data;
      out.appendChild(text);
    }
    return { text: new XMLSerializer().serializeToString(out), width: width, height: height };
  }
  function save(blob, name) {
    var link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 10000);
  }
  all("figure.chart, figure.map").forEach(function (figure, index) {
    var bar = document.createElement("div");
    bar.className = "save";
    var named = figure.querySelector("svg").getAttribute("aria-label") || "picture";
    var stem = named.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) + "-" + (index + 1);
    [["SVG", function (drawn) { save(new Blob([drawn.text], { type: "image/svg+xml" }), stem + ".svg"); }],
     ["PNG", function (drawn) {
       var image = new Image();
       image.onload = function () {
         var canvas = document.createElement("canvas");
         canvas.width = drawn.width * 2;
         canvas.height = drawn.height * 2;
         canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
         canvas.toBlob(function (blob) { save(blob, stem + ".png"); });
       };
       image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawn.text);
     }]].forEach(function (kind) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = kind[0];
      button.setAttribute("aria-label", "Save this picture as " + kind[0]);
      button.addEventListener("click", function () { kind[1](picture(figure)); });
      bar.appendChild(button);
    });
    figure.appendChild(bar);
  });

  // A large sweep: every point, found by its values and sorted by any column.
  var place = document.getElementById("index");
  if (place && window.plumbPoints) (function (data) {
    var make = function (name, text, parent, type) {
      var node = document.createElement(name);
      if (text) node.textContent = text;
      if (type) node.type = type;
      if (parent) parent.appendChild(node);
      return node;
    };
    var short = function (key) { return key.split(".").pop(); };
    var drawn = {};
    points.forEach(function (article) { drawn[article.id] = true; });
    var filters = data.keys.map(function () { return ""; }), direction = "", order = 0, down = false, page = 0, size = 50;
    place.textContent = "";
    var find = make("div", "", place);
    find.className = "find";
    var chooser = function (name, values, set) {
      var label = make("label", name + " ", find);
      var field;
      if (values.length > 60) {
        field = make("input", "", label, "text");
        field.placeholder = "all";
        field.addEventListener("input", function () { set(field.value.trim()); page = 0; show_rows(); });
        return;
      }
      field = make("select", "", label);
      [""].concat(values).forEach(function (value) { var option = make("option", value || "all", field); option.value = value; });
      field.addEventListener("change", function () { set(field.value); page = 0; show_rows(); });
    };
    var distinct = function (of) {
      var seen = {}, list = [];
      data.rows.forEach(function (row) { var value = of(row); if (!Object.prototype.hasOwnProperty.call(seen, "k" + value)) { seen["k" + value] = 1; list.push(value); } });
      return list;
    };
    data.keys.forEach(function (key, at) { chooser(short(key), distinct(function (row) { return row[1][at]; }), function (value) { filters[at] = value; }); });
    chooser("", distinct(function (row) { return row[2]; }), function (value) { direction = value; });
    var table = make("table", "", place);
    table.className = "overview";
    var head = make("tr", "", make("thead", "", table)), body = make("tbody", "", table);
    var number = function (text) { return text !== "" && isFinite(text); };
    var columns = [["#", function (row) { return row[0]; }]];
    data.keys.forEach(function (key, at) { columns.push([short(key), function (row) { return number(row[1][at]) ? Number(row[1][at]) : row[1][at]; }]); });
    columns.push(["", function (row) { return row[2]; }]);
    data.columns.forEach(function (column, at) { columns.push([column[0], function (row) { return row[4][at]; }, column[1]]); });
    columns.forEach(function (column, at) {
      var cell = make("th", column[0], head);
      cell.className = column[2] || at === 0 ? "n sort" : "sort";
      cell.tabIndex = 0;
      var sort = function () { down = order === at ? !down : false; order = at; page = 0; show_rows(); };
      cell.addEventListener("click", sort);
      cell.addEventListener("keydown", function (event) { if (event.key === "Enter") sort(); });
    });
    var foot = make("div", "", place);
    foot.className = "picker";
    var back = make("button", "← Back", foot, "button"), where = make("span", "", foot), next = make("button", "Next →", foot, "button");
    back.addEventListener("click", function () { page -= 1; show_rows(); });
    next.addEventListener("click", function () { page += 1; show_rows(); });
    function show_rows() {
      var rows = data.rows.filter(function (row) {
        return (direction === "" || row[2] === direction) && filters.every(function (value, at) { return value === "" || row[1][at] === value; });
      });
      var of = columns[order][1];
      rows.sort(function (a, b) {
        var x = of(a), y = of(b);
        if (x === y) return a[0] - b[0];
        // What has no value stands at the end.
        if (x === null || x === undefined) return 1;
        if (y === null || y === undefined) return -1;
        var less = typeof x === typeof y ? y > x : typeof x === "number";
        return less === down ? 1 : -1;
      });
      body.textContent = "";
      rows.slice(page * size, page * size + size).forEach(function (row) {
        var line = make("tr", "", body);
        line.className = "first";
        columns.forEach(function (column, at) {
          var cell = make("td", "", line);
          if (column[0]) cell.setAttribute("data-label", column[0]);
          var value = column[1](row);
          if (at === 0) {
            cell.className = "n";
            if (drawn["point-" + value]) make("a", String(value), cell).href = "#point-" + value;
            else cell.textContent = String(value);
          } else if (column[2]) {
            cell.className = "n";
            cell.textContent = value === null || value === undefined || (value === 0 && column[2] === "bandwidth") ? "–" : show(value, column[2]);
          } else if (column[0]) {
            cell.className = "key-value";
            cell.textContent = String(value);
          } else {
            cell.className = "what";
            var key = make("span", "", cell);
            key.className = "key c" + row[3];
            make("i", "", key);
            key.appendChild(document.createTextNode(value || "no request served"));
          }
        });
      });
      all("th", head).forEach(function (cell, at) {
        if (at === order) cell.setAttribute("aria-sort", down ? "descending" : "ascending"); else cell.removeAttribute("aria-sort");
      });
      var last = Math.min(rows.length, page * size + size);
      where.textContent = rows.length ? (page * size + 1) + " to " + last + " of " + rows.length : "none";
      back.disabled = page === 0;
      next.disabled = last >= rows.length;
    }
    show_rows();
  })(window.plumbPoints);
})();
