# Counts the test cases of one run of "bazel test".
#
#   awk -f tools/count_tests.awk EVENTS.json
#
# EVENTS.json is what Bazel wrote under --build_event_json_file, one event a
# line. Every GoogleTest case counts by itself, a script as one. A target that
# was not built, though it could be, counts as one failure, and so does a test
# that ended badly without a case that says so (a crash, a time-out), and events
# that break off, as on a full disk. Skipped cases count as neither. Prints
# "PASSED FAILED SKIPPED", then a line for each failure.

function Field(line, name, value) {
  if (!match(line, "\"" name "\":\"[^\"]*\"")) return ""
  value = substr(line, RSTART, RLENGTH)
  sub(/^"[^"]*":"/, "", value)
  sub(/"$/, "", value)
  return value
}

function Attribute(line, name, value) {
  if (!match(line, " " name "=\"[^\"]*\"")) return ""
  value = substr(line, RSTART, RLENGTH)
  sub(/^[^"]*"/, "", value)
  sub(/"$/, "", value)
  return value
}

function Fail(what) { failed++; failures = failures what "\n" }

function EndCase() {
  if (!in_case) return
  if (case_failed) Fail(label " " case_name)
  else if (case_skipped) skipped++
  else passed++
  in_case = 0
}

# Reads one test.xml.
function Count(file, label, line, suite) {
  in_case = 0
  in_text = 0
  while ((getline line < file) > 0) {
    # What a test said may look like anything: only a report's own lines count.
    if (in_text) {
      if (index(line, "]]>")) in_text = 0
      continue
    }
    if (index(line, "<![CDATA[") && !index(line, "]]>")) in_text = 1
    if (line ~ /^[ \t]*<testcase[ >]/) {
      EndCase()
      in_case = 1
      suite = Attribute(line, "classname")
      case_name = (suite == "" ? "" : suite ".") Attribute(line, "name")
      case_failed = 0
      case_skipped = (line ~ / (status="notrun"|result="skipped"|result="suppressed")/)
      # Bazel writes a script's whole case in one line.
      if (line ~ /<(failure|error)[ >\/]/) case_failed = 1
    } else if (in_case && line ~ /^[ \t]*<(failure|error)[ >\/]/) {
      case_failed = 1
    } else if (in_case && line ~ /^[ \t]*<skipped[ >\/]/) {
      case_skipped = 1
    } else if (line ~ /^[ \t]*<\/testsuite>/) {
      EndCase()
    }
  }
  EndCase()
  close(file)
}

/^\{"id":\{"testResult":/ {
  label = Field($0, "label")
  status = ""
  # The event's own status; the id has none.
  if (match($0, /"testResult":\{[^}]*"status":"[A-Z_]*"/) ||
      match($0, /"status":"[A-Z_]*"/)) {
    status = substr($0, RSTART, RLENGTH)
    sub(/"$/, "", status)
    sub(/.*"/, "", status)
  }
  before = failed
  n = split($0, outputs, /\{"name":/)
  for (i = 2; i <= n; i++) {
    if (outputs[i] !~ /^"test\.xml"/) continue
    file = Field(outputs[i], "uri")
    sub(/^file:\/\//, "", file)
    gsub(/%2B/, "+", file)
    gsub(/%20/, " ", file)
    gsub(/%40/, "@", file)
    Count(file, label)
  }
  if (status != "PASSED" && failed == before)
    Fail(label " ended with " (status == "" ? "no status" : status))
}

# A target, built or not. What cannot be built here (target_compatible_with) was
# left out, and is no failure.
/^\{"id":\{"targetCompleted":/ && /"aborted":\{"reason":"SKIPPED"/ { next }
/^\{"id":\{"targetCompleted":/ && !/"completed":\{"success":true/ {
  label = Field($0, "label")
  if (!(label in unbuilt)) Fail(label " was not built")
  unbuilt[label] = 1
}

# A BUILD file or a pattern that could not be read.
/^\{"id":\{"(pattern|targetConfigured|unconfiguredLabel|configuredLabel)":/ && /"aborted":\{/ {
  label = Field($0, "label")
  if (label == "" || !(label in unbuilt))
    Fail((label == "" ? "the build" : label) " could not be analysed")
  if (label != "") unbuilt[label] = 1
}

/"lastMessage":true/ { whole = 1 }

END {
  if (!whole) Fail("the list of events breaks off, so that cases are missing")
  print passed + 0, failed + 0, skipped + 0
  printf "%s", failures
}
