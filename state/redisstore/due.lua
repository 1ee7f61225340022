-- Reads the fence and entries of the pages of the lowest buckets, at one instant: at least one, at most limit, and it ends where they
-- come to room bytes.
--
-- KEYS  1 meta, 2 pages
-- ARGV  1 what the keys of pages begin with, 2 the highest bucket, 3 limit, 4 room
-- Reply: OK, token, seq, 1 if there are more and 0 if not, then number of a page, array of ids and values, number, array, ...
local call = redis.call
local at = call('HMGET', KEYS[1], 'token', 'seq', 'torn')
if not at[1] then return {'NOSTATE'} end
if at[3] and at[3] ~= '' then return {'TORN', at[3]} end
local left, room, first = tonumber(ARGV[3]), tonumber(ARGV[4]), true
local out = {'OK', at[1], at[2], 0}
local offset, some = 0, 256
while true do
  local pages = call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[2], 'LIMIT', offset, some)
  for _, page in ipairs(pages) do
    local key, taken = ARGV[1] .. page, {}
    for _, id in ipairs(call('HKEYS', key)) do
      if left <= 0 or (room <= 0 and not first) then
        out[4] = 1
        break
      end
      local value = call('HGET', key, id)
      taken[#taken + 1] = id
      taken[#taken + 1] = value
      left, room, first = left - 1, room - #id - #value, false
    end
    if #taken > 0 then
      out[#out + 1] = page
      out[#out + 1] = taken
    end
    if out[4] == 1 then return out end
  end
  if #pages < some then return out end
  offset = offset + some
end
