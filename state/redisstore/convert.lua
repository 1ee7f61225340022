-- Puts entries of a layout below 3 into one page, and takes them away from where they were. The same call again does nothing new.
--
-- KEYS  1 meta, 2 pages, 3 due, 4 due:<bucket>, 5 the page, then the hash that each entry lay in
-- ARGV  1 token, 2 the page's number, 3 its bucket, 4 the layout that is converted, then for each entry the id's text, the id and the
--       value, which is empty where there is none
local call = redis.call
local at = call('HMGET', KEYS[1], 'token', 'torn', 'layout')
if not at[1] then return {'NOSTATE'} end
if at[1] ~= ARGV[1] then return {'FENCED', at[1], ''} end
if at[2] and at[2] ~= '' then return {'TORN', at[2]} end
-- Before anything is gone from where an older worker would look: it is to refuse the state.
if at[3] ~= '3' then call('HSET', KEYS[1], 'layout', '3', 'converted', ARGV[4]) end
local put = false
for k = 6, #KEYS do
  local i = 5 + 3 * (k - 6)
  if ARGV[i + 2] ~= '' then
    if not put then call('ZADD', KEYS[2], 'NX', ARGV[3], ARGV[2]) end
    put = true
    call('HSET', KEYS[5], ARGV[i + 1], ARGV[i + 2])
  end
end
for k = 6, #KEYS do
  local i = 5 + 3 * (k - 6)
  call('HDEL', KEYS[k], ARGV[i])
  call('SREM', KEYS[4], ARGV[i])
end
if call('EXISTS', KEYS[4]) == 0 then call('ZREM', KEYS[3], ARGV[3]) end
call('HSET', KEYS[1], 'converting', ARGV[2])
return {'OK'}
