-- Reads the fence and ids of the lowest buckets, at one instant: at least one, at most limit, and it ends where they come to
-- room bytes.
--
-- KEYS  1 meta, 2 due
-- ARGV  1 what the keys of buckets begin with, 2 the highest bucket, 3 limit, 4 room, 5 bytes of the longest id
-- Reply: OK, token, seq, 1 if there are more and 0 if not, then bucket, array of ids, bucket, array of ids, ...
local call = redis.call
local at = call('HMGET', KEYS[1], 'token', 'seq', 'torn')
if not at[1] then return {'NOSTATE'} end
if at[3] and at[3] ~= '' then return {'TORN', at[3]} end
local left, room, longest = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local out = {'OK', at[1], at[2], 0}

-- As many ids of a bucket as there may be room for. How long they are is known of the first few; what of the others goes
-- beyond room is cut off. Not SSCAN: it can come back empty from a set that once was large.
local function read(key)
  local sure = math.min(left, math.max(1, math.floor(room / longest)))
  local ids = call('SRANDMEMBER', key, sure)
  if #ids < sure or sure == left then return ids, sure end
  local bytes = 1
  for _, id in ipairs(ids) do bytes = bytes + #id end
  local n = math.min(left, math.ceil(room * #ids / bytes))
  if n <= sure then return ids, sure end
  return call('SRANDMEMBER', key, n), n
end

local buckets = call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[2], 'LIMIT', '0', left + 1)
for i, bucket in ipairs(buckets) do
  if left <= 0 or (i > 1 and room <= 0) then
    out[4] = 1
    break
  end
  local key = ARGV[1] .. bucket
  local ids, asked = read(key)
  local taken = {}
  for j, id in ipairs(ids) do
    taken[j] = id
    room = room - #id
    if room <= 0 then break end
  end
  left = left - #taken
  if #taken < #ids or (#ids == asked and call('SCARD', key) > asked) then out[4] = 1 end
  out[#out + 1] = bucket
  out[#out + 1] = taken
end
return out
