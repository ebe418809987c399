# Instructions with their answers out of Debian's list of installed packages (/var/lib/dpkg/status): JSON lines
# with messages. Every tenth package goes into the file `held_out`, the others into `out`. The texts that a base is
# trained on go into `texts`, a package a line.
function escaped(text) {
  gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text); gsub(/\t/, " ", text)
  return text
}
function conversation(question, answer) {
  return "{\"messages\": [{\"role\": \"user\", \"content\": \"" escaped(question) "\"}, {\"role\": \"assistant\", \"content\": \"" \
    escaped(answer) "\"}]}"
}
function finish() {
  if (package == "" || summary == "") return
  ++packages
  print "{\"text\": \"" escaped("The package " package " in section " section ": " summary ". " long) "\"}" > texts
  to = packages % 10 == 0 ? held_out : out
  print conversation("What is " package "?", package " is in section " section ": " summary ".") > to
  print conversation("Which section holds " package "?", "The package " package " is in section " section ".") > to
}
/^Package:/ { finish(); package = $2; section = "misc"; summary = long = ""; inside = 0 }
/^Section:/ { section = $2 }
/^[A-Za-z-]+:/ { inside = 0 }
/^Description:/ { summary = $0; sub(/^Description: */, "", summary); inside = 1 }
/^ / && inside { line = $0; sub(/^ \.?/, "", line); long = long " " line }
END { finish() }
