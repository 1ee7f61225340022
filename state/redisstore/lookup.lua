-- Reads the fence and what lies at places, in their order, at one instant. It reads at least one, and ends where what
-- it has read comes to room bytes.
--
-- KEYS  1 meta, then the page of each place
-- ARGV  1 room, then the id of each place
-- Reply: OK, token, seq, then the values
local call = redis.call
local at = call('HMGET', KEYS[1], 'token', 'seq', 'torn')
if not at[1] then return {'NOSTATE'} end
if at[3] and at[3] ~= '' then return {'TORN', at[3]} end
local out, room = {'OK', at[1], at[2]}, tonumber(ARGV[1])
for k = 2, #KEYS do
  local value = call('HGET', KEYS[k], ARGV[k])
  out[k + 2] = value
  if value then
    room = room - #value
    if room <= 0 then break end
  end
end
return out
