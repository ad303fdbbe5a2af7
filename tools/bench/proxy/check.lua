-- For wrk: compares every answer with what it must be, and prints one line of JSON. Argument: the file with the expected body.

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  expected = file:read("*a")
  file:close()
  wrong = 0
end

function response(status, _, body)
  if status ~= 200 or body ~= expected then
    wrong = wrong + 1
  end
end

function done(summary, latency)
  local wrong_answers = 0
  for _, thread in ipairs(threads) do
    wrong_answers = wrong_answers + thread:get("wrong")
  end
  local errors = summary.errors
  io.write(
    string.format(
      '\n{"requests":%d,"micros":%d,"p99":%d,"wrong":%d,"failed":%d}\n',
      summary.requests,
      summary.duration,
      latency:percentile(99),
      wrong_answers,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout
    )
  )
end
