// Words and numbers for people.
const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});

export const count = n => n == null ? "–" : whole.format(n);
export const plural = (n, one) => count(n) + " " + one + (n === 1 ? "" : "s");
export const percent = x => x == null ? "–" : (100 * x).toLocaleString("en", {maximumFractionDigits: Math.abs(x) < 0.0995 ? 1 : 0}) + " %";
export const rate = x => x == null ? "–" : x >= 100 || x === 0 ? count(x) : x.toLocaleString("en", {maximumFractionDigits: 1});
export const nth = n => n + (["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] || "th");
export const clock = ms => new Date(ms).toLocaleTimeString("en-GB");
export const short = id => id.slice(0, 6);

const fixed = (x, digits) => Math.abs(x).toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});

export function decimal(x) {
  if (x == null) return "–";
  const size = Math.abs(x);
  return (x < 0 ? "−" : "") + fixed(x, size >= 100 ? 0 : size >= 10 ? 1 : 3);
}

// sign writes a difference in words for numbers that text() writes without one.
export const sign = (x, text) => (x < 0 ? "−" : "+") + text(Math.abs(x));
export const signed = x => x == null ? "–" : sign(x, decimal);

// withError writes a value with half the length of its 95 % interval, in as many digits as this has.
export function withError(x, half, plus) {
  const before = x < 0 ? "−" : plus ? "+" : "";
  if (!(half > 0)) return before + decimal(Math.abs(x));
  const digits = Math.min(6, Math.max(0, -Math.floor(Math.log10(half))));
  return before + fixed(x, digits) + "\u00a0±\u00a0" + fixed(half, digits);
}

export function time(seconds) {
  if (seconds == null) return "–";
  const digits = x => x.toLocaleString("en", {maximumFractionDigits: x < 10 ? 1 : 0});
  if (seconds < 1) return digits(1000 * seconds) + " ms";
  if (seconds < 90) return digits(seconds) + " s";
  if (seconds < 90 * 60) return digits(seconds / 60) + " min";
  if (seconds < 36 * 3600) return digits(seconds / 3600) + " h";
  return digits(seconds / 86400) + " days";
}

export const latency = s => s != null && s >= 300 ? "over 5 min" : time(s); // the last bucket ends here

// duration writes a time in words.
export function duration(seconds) {
  for (const [length, name] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) if (seconds >= 2 * length) return plural(Math.round(seconds / length), name);
  return plural(Math.round(seconds), "second");
}

// dated writes a time that is past: that of today, or with its day.
export const dated = (at, now) => new Date(at).toDateString() === new Date(now).toDateString() ? clock(at) : moment(at, now) + ", " + clock(at);

// moment writes a time to come: the time of today, or the day.
export function moment(at, now) {
  const day = new Date(at), today = new Date(now);
  if (day.toDateString() === today.toDateString()) return day.toLocaleTimeString("en-GB", {hour: "2-digit", minute: "2-digit"});
  return day.toLocaleDateString("en-GB", {day: "numeric", month: "short", year: day.getFullYear() === today.getFullYear() ? undefined : "numeric"});
}

export function bytes(n) {
  if (n < 1024) return count(n) + " B";
  if (n < 1024 * 1024) return count(n / 1024) + " KiB";
  return (n / 1024 / 1024).toLocaleString("en", {maximumFractionDigits: 1}) + " MiB";
}

export const utc = ms => new Date(ms).toISOString().replace("T", " ").slice(0, 19) + " UTC";
