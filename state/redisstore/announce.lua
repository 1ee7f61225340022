-- Stores a worker's announcement, and returns all that still count, latest first. It deletes the others.
--
-- KEYS  1 workers: a hash of JSON objects by id, whose first member "at" is when that worker was last noted
-- ARGV  1 id, 2 its announcement: a JSON object that is not empty, 3 milliseconds for which it counts, 4 how many are kept,
--       5 bytes that one may say, 6 bytes of all with their ids
-- Reply: OK, then the announcements; FORBIDDEN where the user may not ask for the time
local call = redis.call
local time = redis.pcall('TIME')
if time.err then return {'FORBIDDEN', time.err} end
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local self = '{"at":' .. string.format('%.0f', now) .. ',' .. string.sub(ARGV[2], 2)
local counts, most, longest, room = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local others, all = {}, call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local id, says = all[i], all[i + 1]
  local at = string.match(says, '^{"at":(%d+),')
  if id ~= ARGV[1] then others[#others + 1] = {id = id, says = says, at = at and tonumber(at) or 0} end
end
table.sort(others, function(a, b) return a.at > b.at end)
local out, kept = {'OK', self}, 1
room = room - #ARGV[1] - #self
for _, w in ipairs(others) do
  local size = #w.id + #w.says
  -- One from the future is of a clock that went back, or of another server.
  if math.abs(now - w.at) <= counts and kept < most and #w.says <= longest and size <= room then
    kept, room = kept + 1, room - size
    out[#out + 1] = w.says
  else
    call('HDEL', KEYS[1], w.id)
  end
end
call('HSET', KEYS[1], ARGV[1], self)
call('PEXPIRE', KEYS[1], ARGV[3]) -- the last worker's announcement ends, too
return out
